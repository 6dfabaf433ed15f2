// Package install holds what a cluster needs for holdfast, and puts it there.
//
// Objects turns Options into a list of objects in the order in which they have to be applied: the CRDs, the Namespace,
// then accounts, rights, network and the Deployment. The list is the same for the same Options, so that its export can
// be kept in Git. Export writes the list as YAML; Apply sends it to a cluster by server-side apply and waits between the
// CRDs and the rest.
//
// The CRDs come from package config; the other manifests are templates in the directory manifests.
package install
