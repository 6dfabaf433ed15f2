package kustomization

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// checkNamespaces refuses a build in which spec.targetNamespace gave a Namespace another name, and the name is that of one
// which is never pruned: kustomize renames Namespaces, too. Such a Namespace would be taken over, and then be lost with its
// manifest. To tell a rename from a manifest that has the name already, the build is repeated without the field; that costs
// something only where there is such a Namespace.
func (p *pass) checkNamespaces(root string, objects []*unstructured.Unstructured, options func(*v1.Kustomization) build.Options) error {
	target := object.ID{Kind: "Namespace", Name: p.ks.Spec.TargetNamespace}
	if target.Name == "" || !hasObject(objects, target) || !plan.IsSystemNamespace(p.owner(), target) {
		return nil
	}
	plain := p.ks.DeepCopy()
	plain.Spec.TargetNamespace = ""
	before, err := p.Build(root, plain, options(plain))
	if err != nil {
		return fmt.Errorf("find out which Namespace spec.targetNamespace renames to %s: %w", target.Name, err)
	}
	if hasObject(before.Objects, target) {
		return nil
	}
	return &renamedError{from: namespaces(before), to: target.Name}
}

// renamedError says which Namespaces would become another one.
type renamedError struct {
	from []string
	to   string
}

func (e *renamedError) Error() string {
	return fmt.Sprintf("spec.targetNamespace renames the manifest of Namespace %v to %q, a Namespace that is not this Kustomization's to manage: "+
		"take the manifest out of the path, or set another targetNamespace", e.from, e.to)
}

func hasObject(objects []*unstructured.Unstructured, id object.ID) bool {
	return slices.ContainsFunc(objects, func(obj *unstructured.Unstructured) bool { return object.IDOf(obj) == id })
}

// namespaces are the names of the Namespaces in a build.
func namespaces(result build.Result) []string {
	var names []string
	for _, obj := range result.Objects {
		if plan.IsNamespace(object.IDOf(obj)) {
			names = append(names, obj.GetName())
		}
	}
	return names
}

// owner is the Kustomization as the planner knows it.
func (p *pass) owner() plan.Owner {
	return plan.Owner{Name: p.ks.Name, Namespace: p.ks.Namespace, ControllerNamespace: p.OwnNamespace}
}
