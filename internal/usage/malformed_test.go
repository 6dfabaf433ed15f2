package usage_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// A reference that can't be read is an error that names the object and the field, wherever it stands, and hides no other user.
func TestFindMalformed(t *testing.T) {
	rbac := func(fields string) string { return rbacVersion + "kind: RoleBinding\n" + meta("bad") + fields }
	tests := map[string]struct{ doc, field string }{
		"env is no list":         {podDoc("bad", "Running", "{containers: [{name: c, env: {a: b}}]}"), "containers[].env"},
		"name is no string":      {podDoc("bad", "Running", "{imagePullSecrets: [{name: 5}]}"), "imagePullSecrets[].name"},
		"phase is no string":     {podDoc("bad", "[1]", "{}"), "status.phase"},
		"spec is no object":      {podDoc("bad", "Running", "[]"), "spec"},
		"account is no string":   {podDoc("bad", "Running", "{serviceAccountName: 5}"), "serviceAccountName"},
		"old account":            {podDoc("bad", "Running", "{serviceAccount: 5}"), "serviceAccount"},
		"source of a volume":     {podDoc("bad", "Running", "{volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {dataSource: {kind: 5}}}}}]}"), "kind"},
		"replicas are no number": {rs("bad", "{replicas: x}"), "spec.replicas"},
		"revision is missing":    {"apiVersion: apps/v1\nkind: StatefulSet\n" + meta("bad") + "status: {currentRevision: gone}", "status.currentRevision"},
		"revision is no string":  {"apiVersion: apps/v1\nkind: StatefulSet\n" + meta("bad") + "status: {currentRevision: 5}", "status.currentRevision"},
		"conditions of a job":    {"apiVersion: batch/v1\nkind: Job\n" + meta("bad") + "status: {conditions: [x]}", "status.conditions[]"},
		"service of a set":       {"apiVersion: apps/v1\nkind: StatefulSet\n" + meta("bad") + "spec: {serviceName: []}", "spec.serviceName"},
		"source of a claim":      {"apiVersion: v1\nkind: PersistentVolumeClaim\n" + meta("bad") + "spec: {dataSourceRef: {name: 5}}", "name"},
		"service of an API":      {"apiVersion: apiregistration.k8s.io/v1\nkind: APIService\n" + meta("bad") + "spec: {service: {namespace: 5}}", "namespace"},
		"certificate":            {"apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n" + meta("bad") + "spec: {listeners: [{tls: {certificateRefs: [{name: 5}]}}]}", "name"},
		"role of a binding":      {rbac("roleRef: {kind: 5}"), "kind"},
		"subjects of a binding":  {rbac("subjects: x"), "subjects"},
	}
	targets := object.NewSet(cfg, inShop("rbac.authorization.k8s.io", "RoleBinding", "bad"))
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := usage.Find(targets, objects(t, tt.doc, podDoc("good", "Running", uses)))
			var malformed *usage.MalformedError
			if !errors.As(err, &malformed) || malformed.ID.Name != "bad" {
				t.Fatalf("error %v, want a MalformedError about bad", err)
			}
			if reason := errors.Unwrap(malformed); reason == nil || !strings.Contains(reason.Error(), tt.field) || !strings.Contains(err.Error(), reason.Error()) {
				t.Errorf("error %q, want it to name %s", err, tt.field)
			}
			if len(got[cfg]) != 1 {
				t.Errorf("users %v, want the good pod", got[cfg])
			}
		})
	}
}

// References that name nothing are not malformed, and what only looks like a reference is none.
func TestReferencesToNothing(t *testing.T) {
	for name, doc := range map[string]string{
		"binding without a role":    rbacVersion + "kind: RoleBinding\n" + meta("b") + "roleRef: {kind: Role, name: ''}",
		"claim without a source":    "apiVersion: v1\nkind: PersistentVolumeClaim\n" + meta("c") + "spec: {dataSource: {kind: PersistentVolumeClaim, name: ''}}",
		"source of another kind":    "apiVersion: v1\nkind: PersistentVolumeClaim\n" + meta("c") + "spec: {dataSourceRef: {kind: Backup, name: b}}",
		"certificate of a provider": "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n" + meta("g") + "spec: {listeners: [{tls: {certificateRefs: [{group: example.com, kind: Certificate, name: c}]}}]}",
	} {
		if refs, err := usage.References(objects(t, doc)[0]); err != nil || len(refs) > 0 {
			t.Errorf("%s: %v (%v)", name, refs, err)
		}
	}
}

// Numbers that were not read by the API machinery are floats.
func TestReplicasAsFloat(t *testing.T) {
	for replicas, want := range map[float64]int{0: 0, 2: 1} {
		live := objects(t, rs("a", "{template: "+template+"}"))
		live[0].Object["spec"].(map[string]any)["replicas"] = replicas
		if got, err := usage.Find(object.NewSet(cfg), live); err != nil || len(got[cfg]) != want {
			t.Errorf("%v replicas: users %v (%v), want %d", replicas, got, err, want)
		}
	}
}

// A controller reference that can't be read only costs its place in a summary.
func TestControllerThatCannotBe(t *testing.T) {
	pod := podDoc("p", "Running", uses, "ownerReferences: [{apiVersion: a/b/c, kind: X, name: x, uid: u, controller: true}]")
	got, err := usage.Find(object.NewSet(cfg), objects(t, pod))
	if users := got[cfg]; err != nil || len(users) != 1 || users[0].Controller != (object.ID{}) {
		t.Errorf("users %v (%v), want the pod, without a controller", users, err)
	}
}
