// Package identity asks for credentials in the name of a ServiceAccount, or of the controller itself: for clusters, Git servers,
// key services and Vault. Nothing secret has to be stored for them.
//
// Whoever may write a Kustomization or a GitRepository chooses where such credentials go. Those of a ServiceAccount of its own namespace are its own
// affair. Those of the controller are good for more than that, and go only where nobody else could have led them: to the address
// that the cloud names for a cluster, to the Git servers of a cloud, or, where an address is all there is, limited to that very address.
package identity
