package usage

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Rule says where the objects of a kind name objects of another one.
type Rule struct {
	// From is the kind that names, and To the kind that is named, of any group.
	From schema.GroupKind
	To   string
	path path
}

// NewRule makes a rule; see ParsePath for the form of the path.
func NewRule(from schema.GroupKind, where, to string) (Rule, error) {
	p, err := ParsePath(where)
	switch {
	case from.Kind == "" || to == "":
		return Rule{}, errors.New("want the kind that names and the kind that is named")
	case err != nil:
		return Rule{}, err
	}
	return Rule{From: from, To: to, path: p}, nil
}

// knownPaths are where custom resources name what they need, by kind. Where a field names objects of several kinds, each of
// them counts. Only those of fields that are read; a name that a controller writes to is no use.
// Source: the API types of the projects.
var knownPaths = func() map[schema.GroupKind][]rule {
	const flux = ".toolkit.fluxcd.io"
	kubeConfig := []rule{at("spec.kubeConfig.secretRef.name", secret), at("spec.kubeConfig.configMapRef.name", configMap),
		at("spec.serviceAccountName", serviceAccount)}
	source := []rule{at("spec.secretRef.name", secret), at("spec.certSecretRef.name", secret), at("spec.proxySecretRef.name", secret),
		at("spec.verify.secretRef.name", secret), at("spec.serviceAccountName", serviceAccount)}
	route := []rule{at("spec.rules[].backendRefs[].name", service)}
	issuer := []rule{at("spec.ca.secretName", secret), at("spec.acme.privateKeySecretRef.name", secret),
		at("spec.vault.auth.tokenSecretRef.name", secret), at("spec.vault.auth.appRole.secretRef.name", secret)}
	return map[schema.GroupKind][]rule{
		{Group: "kustomize" + flux, Kind: "Kustomization"}: join(kubeConfig, []rule{
			at("spec.postBuild.substituteFrom[].name", configMap), at("spec.postBuild.substituteFrom[].name", secret),
			at("spec.decryption.secretRef.name", secret), at("spec.decryption.serviceAccountName", serviceAccount)}),
		{Group: "helm" + flux, Kind: "HelmRelease"}: join(kubeConfig, []rule{
			at("spec.valuesFrom[].name", configMap), at("spec.valuesFrom[].name", secret)}),
		{Group: "source" + flux, Kind: "GitRepository"}:         source,
		{Group: "source" + flux, Kind: "OCIRepository"}:         source,
		{Group: "source" + flux, Kind: "HelmRepository"}:        source,
		{Group: "source" + flux, Kind: "Bucket"}:                source,
		{Group: "notification" + flux, Kind: "Provider"}:        source,
		{Group: "notification" + flux, Kind: "Receiver"}:        source,
		{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute"}: route,
		{Group: "gateway.networking.k8s.io", Kind: "GRPCRoute"}: route,
		{Group: "gateway.networking.k8s.io", Kind: "TLSRoute"}:  route,
		{Group: "gateway.networking.k8s.io", Kind: "TCPRoute"}:  route,
		{Group: "cert-manager.io", Kind: "Issuer"}:              issuer,
		{Group: "cert-manager.io", Kind: "ClusterIssuer"}:       issuer,
	}
}()

// collectKnown adds what a custom resource of a known kind names. A field of another type is passed over: it is one of
// another version of the kind.
func collectKnown(u *unstructured.Unstructured, add func(object.ID)) {
	for _, r := range knownPaths[u.GroupVersionKind().GroupKind()] {
		_ = r.path.names(u.Object, func(name string) { add(r.target.id(u.GetNamespace(), name)) })
	}
}

// named returns the targets that the rules find in an object. A field that holds something else than a name is an error: the
// rule, or the object, is not what the user thinks.
func named(u *unstructured.Unstructured, targets object.Set, rules []Rule) ([]object.ID, error) {
	found := object.Set{}
	var problems []error
	for _, r := range rules {
		if r.From != u.GroupVersionKind().GroupKind() {
			continue
		}
		names := map[string]bool{}
		if err := r.path.names(u.Object, func(name string) { names[name] = true }); err != nil {
			problems = append(problems, fmt.Errorf("by the reference rule for %s: %w", r.To, err))
		}
		for id := range targets {
			if id.Kind == r.To && names[id.Name] && isInReach(u, id) {
				found[id] = struct{}{}
			}
		}
	}
	return sorted(found), errors.Join(problems...)
}

// isInReach tells whether an object may refer to a target by its name alone: one of the same namespace, and across namespaces
// where one of the two is cluster-scoped.
func isInReach(u *unstructured.Unstructured, target object.ID) bool {
	return target.Namespace == "" || u.GetNamespace() == "" || target.Namespace == u.GetNamespace()
}

// Names tells whether the rule finds objects of the target's kind.
func (r Rule) Names(target object.ID) bool { return r.To == target.Kind }
