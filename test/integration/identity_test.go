package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

func clusterRole(name, namespace string) string {
	return fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: %s, namespace: %q}\nrules: []\n", name, namespace)
}

// TestClusterScopedObjectWithNamespace: the namespace in the manifest of a cluster-scoped object means nothing. Neither taking
// it away nor an inventory from before this rule makes a wanted object look like one that is no longer wanted.
func TestClusterScopedObjectWithNamespace(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	name := uniqueName("role")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
	id := "_" + name + "_rbac.authorization.k8s.io_ClusterRole"
	r1 := s.push(map[string]string{"c.yaml": configMap("c", "1"), "role.yaml": clusterRole(name, "foo")})
	s.follow()
	s.deploy("app", unwaited)
	ks := s.awaitReady("app", r1)
	if ids := inventoryIDs(ks); !ids[id] || ids["foo"+id] {
		t.Errorf("recorded as %v", ids)
	}
	uid := s.uid(role)
	before := ks.DeepCopy()
	ks.Status.Inventory.Entries = append(ks.Status.Inventory.Entries, fluxv1.ResourceRef{ID: "foo" + id, Version: "v1"})
	if err := kube.Status().Patch(t.Context(), ks, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	r2 := s.push(map[string]string{"c.yaml": configMap("c", "1"), "role.yaml": clusterRole(name, "")})
	s.awaitReady("app", r2)
	s.await("app", "has one entry for the role", func(ks *v1.Kustomization) error {
		if ids := inventoryIDs(ks); ids["foo"+id] || !ids[id] {
			return fmt.Errorf("it has %v", ids)
		}
		return nil
	})
	s.sameUID(role, uid)
	r3 := s.push(map[string]string{"c.yaml": configMap("c", "1")})
	s.awaitReady("app", r3)
	eventually(t, within, "the role is pruned", func(ctx context.Context) error { return exists(ctx, role) })
}

// exists returns an error while the object does.
func exists(ctx context.Context, object client.Object) error {
	err := kube.Get(ctx, client.ObjectKeyFromObject(object), object)
	if err == nil {
		return fmt.Errorf("%s exists", object.GetName())
	}
	return client.IgnoreNotFound(err)
}

// TestForgottenNamespaceLeavesNoEntry: an object that can't exist is refused before it is recorded, and an entry for it from
// elsewhere holds neither a revision nor a deletion.
func TestForgottenNamespaceLeavesNoEntry(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.push(map[string]string{"c.yaml": configMap("c", "1")})
	s.follow()
	ks := s.deploy("app", unwaited, func(ks *v1.Kustomization) {
		ks.Spec.TargetNamespace, ks.Spec.RetryInterval = "", &metav1.Duration{Duration: time.Second}
	})
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "ConfigMap/c namespace not specified")
	ks = s.mustGet(ks.Name)
	if ids := inventoryIDs(ks); len(ids) > 0 {
		t.Errorf("recorded: %v", ids)
	}
	before := ks.DeepCopy()
	ks.Status.Inventory = &fluxv1.ResourceInventory{Entries: []fluxv1.ResourceRef{{ID: "_c__ConfigMap", Version: "v1"}}}
	if err := kube.Status().Patch(t.Context(), ks, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	s.change("app", func(ks *v1.Kustomization) { ks.Spec.TargetNamespace = s.namespace })
	s.awaitDropped("app", "_c__ConfigMap")
}

// TestNameThatIsAPath: a name with a slash in it is never recorded, since a request for it would reach another object.
func TestNameThatIsAPath(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"c.yaml": configMap("c", "1")})
	s.follow()
	s.deploy("app", unwaited)
	s.awaitReady("app", r1)
	uid := s.uid(s.cm("c"))
	s.push(map[string]string{"c.yaml": configMap("c", "1"), "x.yaml": configMap("../configmaps/c", "1")})
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "BuildFailed", `name "../configmaps/c" may not contain '/'`)
	if ids := inventoryIDs(s.mustGet("app")); len(ids) != 1 {
		t.Errorf("recorded: %v", ids)
	}
	r3 := s.push(map[string]string{"c.yaml": configMap("c", "1")})
	s.awaitReady("app", r3)
	s.sameUID(s.cm("c"), uid)
}
