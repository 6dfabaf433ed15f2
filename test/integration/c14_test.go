package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

func namespaceManifest(name string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n"
}

// TestC14Renamed: kustomize renames a Namespace manifest to the targetNamespace. Where that is the Kustomization's own, or one of the
// system's, the build is refused, and says so; removing the manifest deletes nothing.
func TestC14Renamed(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	files := map[string]string{"ns.yaml": namespaceManifest("demo"), "a.yaml": configMap("a", "1")}
	s.push(files)
	s.follow()
	s.deploy("own", unwaited)
	s.deploy("system", unwaited, func(ks *v1.Kustomization) { ks.Spec.TargetNamespace = "kube-public" })
	for name, target := range map[string]string{"own": s.namespace, "system": "kube-public"} {
		ks := s.awaitMessage(name, "Ready", metav1.ConditionFalse, "BuildFailed",
			"spec.targetNamespace renames the manifest of Namespace [demo] to \""+target+"\"", "take the manifest out")
		if ks.Status.Inventory != nil {
			t.Errorf("%s has an inventory: %v", name, ks.Status.Inventory.Entries)
		}
	}
	delete(files, "ns.yaml")
	r2 := s.push(files)
	s.awaitReady("own", r2)
	s.request("own")
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	s.stays(own)
	if label := own.Labels["kustomize.toolkit.fluxcd.io/name"]; label != "" {
		t.Errorf("the namespace was taken over by %s", label)
	}
}

// TestC14OwnName: a manifest that has the name already is no rename. The Namespace is applied, and not pruned with its manifest.
func TestC14OwnName(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	files := map[string]string{"ns.yaml": namespaceManifest(s.namespace), "a.yaml": configMap("a", "1")}
	r1 := s.push(files)
	s.follow()
	s.deploy("own", unwaited)
	s.awaitReady("own", r1)
	delete(files, "ns.yaml")
	r2 := s.push(files)
	s.awaitReady("own", r2)
	s.awaitRetained("own", "_"+s.namespace+"__Namespace", v1.RetainedProtected)
	s.stays(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
}

// TestC14Contents: a Namespace leaves the source while objects that are wanted, kept, or someone else's are in it. It stays as long as
// they do, says so, and goes when it is empty.
func TestC14Contents(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	name := uniqueName("c14")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	files := map[string]string{"ns.yaml": namespaceManifest(name), "rest.yaml": inNamespace(s.namespace, configMap("rest", "1"))}
	for _, cm := range []string{"a", "b", "c"} {
		files[cm+".yaml"] = inNamespace(name, configMap(cm, "1"))
	}
	r1 := s.push(files)
	s.follow()
	s.deploy("app", unwaited, func(ks *v1.Kustomization) { ks.Spec.TargetNamespace = "" })
	s.awaitReady("app", r1)
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "foreign"}}
	create(t, foreign)

	delete(files, "ns.yaml")
	r2 := s.push(files)
	s.awaitReady("app", r2)
	id := "_" + name + "__Namespace"
	if kept := s.awaitRetained("app", id, v1.RetainedProtected); kept.Message != "it still holds ConfigMap/"+name+"/a" {
		t.Errorf("with wanted objects the message is %q", kept.Message)
	}
	r3 := s.push(map[string]string{"rest.yaml": files["rest.yaml"]})
	s.awaitReady("app", r3)
	eventuallyGone(t, within, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "a"}})
	s.await("app", "keeping the Namespace for the foreign object", func(ks *v1.Kustomization) error {
		return keptFor(ks, id, v1.RetainedProtected, "ConfigMap/"+name+"/foreign")
	})
	s.stays(namespace)
	if err := kube.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, namespace)
}
