package inquiry

import (
	"context"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/report"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// Answer is an answer of Why: a report.KustomizationAnswer or a report.ObjectAnswer.
type Answer interface {
	WriteText(w io.Writer, o report.TextOptions) error
}

// Why answers a question in the form of the command line: NAME, ks/NAME or NAMESPACE/NAME for a Kustomization, KIND/NAME
// for any object. The namespace is that of the flag.
func (q *Inquirer) Why(ctx context.Context, question, namespace string) (Answer, error) {
	before, name, hasSlash := strings.Cut(question, "/")
	switch {
	case question == "", strings.Contains(name, "/"), hasSlash && (before == "" || name == ""):
		return nil, usagef("%q is neither NAME nor KIND/NAME: try `holdfast why --help`", question)
	case !hasSlash:
		return q.whyKustomization(ctx, namespace, question)
	}
	mapping, kindErr := q.kind(before)
	if kindErr == nil {
		if isKustomization(mapping.GroupVersionKind.GroupKind()) {
			return q.whyKustomization(ctx, namespace, name)
		}
		return q.whyObject(ctx, mapping, namespace, name)
	}
	answer, err := q.whyKustomization(ctx, before, name)
	if IsNotFound(err) {
		return nil, kindErr
	}
	return answer, err
}

func isKustomization(gk schema.GroupKind) bool {
	return gk.Group == v1.GroupVersion.Group && gk.Kind == v1.KustomizationKind
}

// whyObject reads an object, the Kustomizations that may have to do with it, and its users.
func (q *Inquirer) whyObject(ctx context.Context, mapping *meta.RESTMapping, namespace, name string) (Answer, error) {
	gvk := mapping.GroupVersionKind
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		namespace = ""
	}
	seen := report.SeenObject{ID: object.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: namespace, Name: name}}
	var missing []string
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(gvk)
	switch err := q.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj); {
	case err == nil:
		seen.Exists, seen.Meta = true, obj
	case observe.IsAbsent(err):
	case !isAnswer(err):
		return nil, failed("get "+seen.ID.String(), mapping.Resource.GroupResource().String(), err)
	default:
		seen.Exists, seen.Unread = true, err.Error()
		missing = append(missing, lacking("get "+mapping.Resource.GroupResource().String()+in(namespace), err, "its labels are not looked at"))
	}
	missing = append(missing, q.lookAround(ctx, &seen)...)
	all, complete, lack, err := q.concerned(ctx, seen)
	if err != nil {
		return nil, err
	}
	sources, lacks := q.followed(ctx, all, nil)
	missing = append(append(missing, lack...), lacks...)
	if usage.CanBeUsed(seen.ID) {
		use := q.observer.Users(ctx, []object.ID{seen.ID}, false)[seen.ID]
		seen.Looked, seen.Users, seen.UsersUnknown = true, use.Users, use.Why
	}
	answer := report.ObjectAnswerOf(seen, all, report.StatusOf(nil, sources, nil).Sources, complete, missing)
	if !answer.Exists && len(answer.Inventories) == 0 {
		if n := len(seen.Users); n > 0 {
			return nil, notFoundf("no %s %s%s, and no inventory has it, but this refers to it: %s", gvk.Kind, name, in(namespace), strings.Join(seen.Users, ", "))
		}
		return nil, notFoundf("no %s %s%s, and no inventory has it: check the name and --namespace", gvk.Kind, name, in(namespace))
	}
	return answer, nil
}

// concerned lists the Kustomizations that may have to do with an object. Where not all may be listed, those of the
// object's namespace and the one that its labels name have to do.
func (q *Inquirer) concerned(ctx context.Context, seen report.SeenObject) (all []v1.Kustomization, complete bool, missing []string, err error) {
	all, err = q.kustomizations(ctx, "")
	if err == nil {
		return relevant(all, seen), true, nil, nil
	}
	if !apierrors.IsForbidden(err) {
		return nil, false, nil, err
	}
	missing = []string{lacking("list kustomizations in all namespaces", err, "others may have it in their inventory, too")}
	if seen.ID.Namespace != "" {
		if all, err = q.kustomizations(ctx, seen.ID.Namespace); err != nil && !apierrors.IsForbidden(err) {
			return nil, false, nil, err
		}
	}
	if seen.Meta != nil {
		labels := seen.Meta.GetLabels()
		// When the owner can't be read either, the answer says so by its standing.
		owner, err := q.kustomization(ctx, labels[v1.OwnerNamespaceLabel], labels[v1.OwnerNameLabel])
		if err == nil && owner.Namespace != seen.ID.Namespace {
			all = append(all, *owner)
		}
	}
	return relevant(all, seen), false, missing, nil
}

// relevant leaves out the Kustomizations that have nothing to do with an object, so that their sources are not read.
func relevant(all []v1.Kustomization, seen report.SeenObject) []v1.Kustomization {
	var kept []v1.Kustomization
	for _, ks := range all {
		if report.Concerns(&ks, seen) {
			kept = append(kept, ks)
		}
	}
	return kept
}
