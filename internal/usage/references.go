package usage

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// templates says where the kinds of Kubernetes itself hold a pod spec. A ControllerRevision holds the template of its
// StatefulSet or DaemonSet as the patch that would restore it. Source: the API types of core/v1, apps/v1 and batch/v1.
var templates = map[schema.GroupKind]path{
	{Kind: "Pod"}:                               parsePath("spec"),
	{Kind: "PodTemplate"}:                       parsePath("template.spec"),
	{Kind: "ReplicationController"}:             parsePath("spec.template.spec"),
	{Group: "apps", Kind: "Deployment"}:         parsePath("spec.template.spec"),
	{Group: "apps", Kind: "ReplicaSet"}:         parsePath("spec.template.spec"),
	{Group: "apps", Kind: "StatefulSet"}:        parsePath("spec.template.spec"),
	{Group: "apps", Kind: "DaemonSet"}:          parsePath("spec.template.spec"),
	{Group: "apps", Kind: "ControllerRevision"}: parsePath("data.spec.template.spec"),
	{Group: "batch", Kind: "Job"}:               parsePath("spec.template.spec"),
	{Group: "batch", Kind: "CronJob"}:           parsePath("spec.jobTemplate.spec.template.spec"),
}

// MalformedError says that an object does not have the shape that the Kubernetes API gives its kind, so that what it
// refers to can't be told. Whoever gets it has to take every object for one that may be in use.
type MalformedError struct {
	// ID of the object.
	ID object.ID
	// Err names the field.
	Err error
}

// Error names the object and the field.
func (e *MalformedError) Error() string {
	return fmt.Sprintf("read references of %s: %v", e.ID, e.Err)
}

// Unwrap returns the error about the field.
func (e *MalformedError) Unwrap() error { return e.Err }

// References returns the objects that the object refers to, sorted and without repetition: what the pod specs in it
// need to start, and for a few kinds what they name elsewhere. Whether the object runs is not asked here; see Find.
//
// Kubernetes' own kinds are read strictly, and a field of a wrong type is a *MalformedError. In other kinds everything
// that looks like a pod spec is read, and fields of other types are passed over, since such a kind may give a name of
// PodSpec another meaning.
func References(u *unstructured.Unstructured) ([]object.ID, error) {
	refs, err := collected(u)
	if err != nil {
		return nil, &MalformedError{ID: object.IDOf(u), Err: err}
	}
	return refs, nil
}

// collected are all references of an object, sorted and without repetition.
func collected(u *unstructured.Unstructured) ([]object.ID, error) {
	refs := make([]object.ID, 0, 8) // most have fewer
	err := collect(u, func(id object.ID) { refs = append(refs, id) })
	slices.SortFunc(refs, object.Compare)
	return slices.Compact(refs), err
}

func collect(u *unstructured.Unstructured, add func(object.ID)) error {
	gk, namespace := u.GroupVersionKind().GroupKind(), u.GetNamespace()
	if err := apply(objectRules[gk], u.Object, namespace, add); err != nil {
		return err
	}
	for _, qualified := range []func(*unstructured.Unstructured, func(object.ID)) error{collectServices, collectRole} {
		if err := qualified(u, add); err != nil {
			return err
		}
	}
	if p, ok := claimSpecs[gk]; ok {
		if err := collectSources(p, u.Object, namespace, add); err != nil {
			return err
		}
	}
	if p, ok := templates[gk]; ok {
		return p.maps(u.Object, func(spec map[string]any) error { return podSpec(spec, namespace, add) })
	}
	if !isKnown(u) {
		foreign(u.Object, namespace, add)
		collectKnown(u, add)
	}
	return nil
}

// isKnown tells whether there are rules for the kind, which then say all there is to say about it.
func isKnown(u *unstructured.Unstructured) bool {
	gk := u.GroupVersionKind().GroupKind()
	_, isTemplate := templates[gk]
	_, hasRules := objectRules[gk]
	_, hasService := serviceRefs[gk]
	return isTemplate || hasRules || hasService || gk == gateway || isBinding(gk)
}

// defaultAccount is the service account of pods that name none.
const defaultAccount = "default"

// podSpec adds what a pod spec refers to. A pod without an account runs as the account "default" of its namespace
// (ServiceAccount admission), and the deprecated field serviceAccount counts when the newer one is empty.
func podSpec(spec map[string]any, namespace string, add func(object.ID)) error {
	if err := apply(podRules, spec, namespace, add); err != nil {
		return err
	}
	if err := collectSources(ephemeralClaim, spec, namespace, add); err != nil {
		return err
	}
	account, err := path{"serviceAccountName"}.text(spec)
	if err != nil {
		return err
	}
	old, err := path{"serviceAccount"}.text(spec)
	if err != nil {
		return err
	}
	add(serviceAccount.id(namespace, cmp.Or(account, old, defaultAccount)))
	return nil
}

// foreign adds the references of every pod spec anywhere in the tree of a kind that is not known here. A pod spec is
// an object with a list of containers. Each rule stands alone: where one does not fit, the others still do.
func foreign(node any, namespace string, add func(object.ID)) {
	switch node := node.(type) {
	case map[string]any:
		if _, ok := node["containers"].([]any); ok {
			for _, r := range podRules {
				// A misfit is not an error here: see References.
				_ = r.path.names(node, func(name string) { add(r.target.id(namespace, name)) })
			}
			account, _ := node["serviceAccountName"].(string)
			old, _ := node["serviceAccount"].(string)
			add(serviceAccount.id(namespace, cmp.Or(account, old, defaultAccount)))
		}
		for _, child := range node {
			foreign(child, namespace, add)
		}
	case []any:
		for _, child := range node {
			foreign(child, namespace, add)
		}
	}
}

func sorted(set object.Set) []object.ID {
	ids := make([]object.ID, 0, len(set))
	for id := range set {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, object.Compare)
	return ids
}
