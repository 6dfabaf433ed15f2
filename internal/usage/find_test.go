package usage_test

import (
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// cfg is the object that the tests ask about.
var cfg = object.ID{Kind: "ConfigMap", Namespace: "shop", Name: "cfg"}

// objects reads one object from each YAML document and puts those without a namespace into "shop".
func objects(t testing.TB, docs ...string) usage.Live {
	t.Helper()
	var live usage.Live
	for _, doc := range docs {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		if u.GetNamespace() == "" {
			u.SetNamespace("shop")
		}
		live = append(live, u)
	}
	return live
}

// Pod templates that refer to cfg, and to something else.
const (
	template = `{spec: {containers: [{name: c, envFrom: [{configMapRef: {name: cfg}}]}]}}`
	other    = `{spec: {containers: [{name: c, envFrom: [{configMapRef: {name: new}}]}]}}`
)

func meta(name string, more ...string) string {
	s := "metadata: {name: " + name
	for _, m := range more {
		s += ", " + m
	}
	return s + "}\n"
}

const (
	ownedByWeb = `ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: u, controller: true}]`
	ownedByDB  = `ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: u, controller: true}]`
	ownedByDS  = `ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: ds, uid: u, controller: true}]`
)

func podDoc(name, phase, spec string, more ...string) string {
	return "apiVersion: v1\nkind: Pod\n" + meta(name, more...) + "status: {phase: " + phase + "}\nspec: " + spec
}

// Pod specs that refer to cfg, and to something else.
const (
	uses    = `{containers: [{name: c, envFrom: [{configMapRef: {name: cfg}}]}]}`
	usesNew = `{containers: [{name: c, envFrom: [{configMapRef: {name: new}}]}]}`
)

func rs(name, spec string, more ...string) string {
	return "apiVersion: apps/v1\nkind: ReplicaSet\n" + meta(name, more...) + "spec: " + spec
}

func TestFindByWorkload(t *testing.T) {
	revision := func(name, tmpl string, more ...string) string {
		return "apiVersion: apps/v1\nkind: ControllerRevision\n" + meta(name, more...) +
			"data: {spec: {template: " + tmpl + "}}"
	}
	workload := func(kind, spec string) string {
		return "apiVersion: apps/v1\nkind: " + kind + "\n" + meta("db") + "spec: " + spec
	}
	batch := func(kind, spec string) string {
		return "apiVersion: batch/v1\nkind: " + kind + "\n" + meta("j") + spec
	}
	tests := map[string]struct {
		live []string
		want []string
	}{
		"pod running":              {live: []string{podDoc("p", "Running", uses)}, want: []string{"Pod/shop/p"}},
		"pod pending":              {live: []string{podDoc("p", "Pending", uses)}, want: []string{"Pod/shop/p"}},
		"pod unknown":              {live: []string{podDoc("p", "Unknown", uses)}, want: []string{"Pod/shop/p"}},
		"pod no phase":             {live: []string{podDoc("p", `""`, uses)}, want: []string{"Pod/shop/p"}},
		"pod terminating":          {live: []string{podDoc("p", "Running", uses, `deletionTimestamp: "2026-01-01T00:00:00Z"`)}, want: []string{"Pod/shop/p"}},
		"pod succeeded":            {live: []string{podDoc("p", "Succeeded", uses)}},
		"pod failed":               {live: []string{podDoc("p", "Failed", uses)}},
		"pod of another namespace": {live: []string{podDoc("p", "Running", uses, "namespace: other")}},

		"replica set with replicas": {live: []string{rs("a", "{replicas: 2, template: "+template+"}")}, want: []string{"ReplicaSet/shop/a"}},
		"replica set by default":    {live: []string{rs("a", "{template: "+template+"}")}, want: []string{"ReplicaSet/shop/a"}},
		"replica set winding down": {live: []string{rs("a", "{replicas: 0, template: "+template+"}") + "\nstatus: {replicas: 1}"},
			want: []string{"ReplicaSet/shop/a"}},
		"replica set at zero": {live: []string{rs("a", "{replicas: 0, template: "+template+"}")}},
		"replication controller": {live: []string{"apiVersion: v1\nkind: ReplicationController\n" + meta("a") + "spec: {replicas: 1, template: " + template + "}"},
			want: []string{"ReplicationController/shop/a"}},
		"replication controller at zero": {live: []string{"apiVersion: v1\nkind: ReplicationController\n" + meta("a") + "spec: {replicas: 0, template: " + template + "}"}},

		"deployment":         {live: []string{workload("Deployment", "{template: "+template+"}")}, want: []string{"Deployment/shop/db"}},
		"deployment at zero": {live: []string{workload("Deployment", "{replicas: 0, template: "+template+"}")}, want: []string{"Deployment/shop/db"}},
		"deployment's old replica sets at zero (C36 d)": {live: []string{
			"apiVersion: apps/v1\nkind: Deployment\n" + meta("web") + "spec: {replicas: 0, template: " + other + "}",
			rs("web-1", "{replicas: 0, template: "+template+"}", ownedByWeb),
		}},
		"paused deployment's newest replica set (C36 c)": {live: []string{
			"apiVersion: apps/v1\nkind: Deployment\n" + meta("web") + "spec: {paused: true, replicas: 0, template: " + other + "}",
			rs("web-1", "{replicas: 0, template: "+template+"}", ownedByWeb, `annotations: {deployment.kubernetes.io/revision: "9"}`),
			rs("web-2", "{replicas: 0, template: "+template+"}", ownedByWeb, `annotations: {deployment.kubernetes.io/revision: "10"}`),
		}, want: []string{"ReplicaSet/shop/web-2"}},

		"stateful set": {live: []string{workload("StatefulSet", "{template: "+template+"}")}, want: []string{"StatefulSet/shop/db"}},
		"stateful set's revisions (C09)": {live: []string{
			workload("StatefulSet", "{template: "+other+"}") + "\nstatus: {currentRevision: db-1, updateRevision: db-2}",
			revision("db-0", template, ownedByDB), revision("db-1", template, ownedByDB), revision("db-2", other, ownedByDB),
		}, want: []string{"ControllerRevision/shop/db-1"}},
		"stateful set's revision that a pod is at": {live: []string{
			workload("StatefulSet", "{template: "+other+"}"),
			revision("db-0", template, ownedByDB), revision("db-1", template, ownedByDB),
			podDoc("db-0", "Running", usesNew, ownedByDB, "labels: {controller-revision-hash: db-0}"),
		}, want: []string{"ControllerRevision/shop/db-0"}},
		"daemon set's revision that a pod is at": {live: []string{
			revision("ds-5f", template, ownedByDS), revision("ds-6a", template, ownedByDS),
			podDoc("ds-x", "Running", usesNew, ownedByDS, "labels: {controller-revision-hash: 5f}"),
			podDoc("ds-y", "Failed", usesNew, ownedByDS, "labels: {controller-revision-hash: 6a}"),
		}, want: []string{"ControllerRevision/shop/ds-5f"}},
		"daemon set": {live: []string{workload("DaemonSet", "{template: "+template+"}")}, want: []string{"DaemonSet/shop/db"}},

		"job":           {live: []string{batch("Job", "spec: {template: "+template+"}")}, want: []string{"Job/shop/j"}},
		"job suspended": {live: []string{batch("Job", "spec: {suspend: true, template: "+template+"}\nstatus: {conditions: [{type: Suspended, status: \"True\"}]}")}, want: []string{"Job/shop/j"}},
		"job complete":  {live: []string{batch("Job", "spec: {template: "+template+"}\nstatus: {conditions: [{type: Complete, status: \"True\"}]}")}},
		"job failed":    {live: []string{batch("Job", "spec: {template: "+template+"}\nstatus: {conditions: [{type: Failed, status: \"True\"}]}")}},
		"job not failed": {live: []string{batch("Job", "spec: {template: "+template+"}\nstatus: {conditions: [{type: Failed, status: \"False\"}]}")},
			want: []string{"Job/shop/j"}},
		"job about to fail": {live: []string{batch("Job", "spec: {template: "+template+"}\nstatus: {conditions: [{type: FailureTarget, status: \"True\"}]}")},
			want: []string{"Job/shop/j"}},
		"cron job suspended (C15)": {live: []string{batch("CronJob", "spec: {suspend: true, jobTemplate: {spec: {template: "+template+"}}}")},
			want: []string{"CronJob/shop/j"}},

		"custom resource with a pod template": {live: []string{"apiVersion: argoproj.io/v1alpha1\nkind: Rollout\n" + meta("r") + "spec: {template: " + template + "}"},
			want: []string{"Rollout/shop/r"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			live := objects(t, tt.live...)
			got, err := usage.Find(object.NewSet(cfg), live)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, u := range got[cfg] {
				ids = append(ids, u.ID.String())
			}
			if !slices.Equal(ids, tt.want) {
				t.Errorf("users %v, want %v", ids, tt.want)
			}
			slices.Reverse(live)
			if again, _ := usage.Find(object.NewSet(cfg), live); !reflect.DeepEqual(got, again) {
				t.Errorf("in reverse order: %v, want %v", again, got)
			}
			sameAnswers(t, object.NewSet(cfg), live)
		})
	}
}

func TestFindClaimsOfStatefulSet(t *testing.T) {
	set := "apiVersion: apps/v1\nkind: StatefulSet\n" + meta("db") +
		"spec: {replicas: 1, serviceName: db, volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: fast}}]}"
	claim := func(ns, name string) object.ID {
		return object.ID{Kind: "PersistentVolumeClaim", Namespace: ns, Name: name}
	}
	used := []object.ID{
		claim("shop", "data-db-0"), claim("shop", "data-db-12"),
		{Kind: "Service", Namespace: "shop", Name: "db"}, {Group: "storage.k8s.io", Kind: "StorageClass", Name: "fast"},
	}
	unused := []object.ID{claim("shop", "data-db-"), claim("shop", "data-db-x"), claim("other", "data-db-0")}
	got, err := usage.Find(object.NewSet(append(used, unused...)...), objects(t, set))
	if err != nil {
		t.Fatal(err)
	}
	sameAnswers(t, object.NewSet(append(used, unused...)...), objects(t, set))
	for _, id := range used {
		if len(got[id]) != 1 {
			t.Errorf("%s: users %v, want the set", id, got[id])
		}
	}
	for _, id := range unused {
		if len(got[id]) != 0 {
			t.Errorf("%s: users %v, want none", id, got[id])
		}
	}
}

func TestSummary(t *testing.T) {
	web := object.ID{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-6d4c"}
	one := object.ID{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "one-1"}
	pod := func(name string) object.ID { return object.ID{Kind: "Pod", Namespace: "shop", Name: name} }
	got := usage.Summary([]usage.User{
		{ID: pod("web-c"), Controller: web}, {ID: pod("web-a"), Controller: web}, {ID: pod("web-b"), Controller: web},
		{ID: web}, {ID: pod("one-a"), Controller: one}, {ID: one}, {ID: pod("x")}, {ID: pod("y")}, {ID: pod("z")},
	})
	want := []string{"Pod/shop/one-a", "Pod/shop/x", "Pod/shop/y", "Pod/shop/z", "ReplicaSet/shop/one-1",
		"ReplicaSet/shop/web-6d4c (3 pods)"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestFindMentions(t *testing.T) {
	const name = "app-g5b2m5gtd8"
	hashed := object.ID{Kind: "ConfigMap", Namespace: "shop", Name: name}
	targets := object.NewSet(cfg, hashed)
	tests := map[string]struct {
		doc  string
		want bool
	}{
		"anywhere":            {doc: "apiVersion: x/v1\nkind: Y\nmetadata: {name: y}\nspec: {a: [{b: " + name + "}]}", want: true},
		"from cluster scope":  {doc: "apiVersion: x/v1\nkind: Y\nmetadata: {name: y, namespace: nowhere}\nspec: {a: " + name + "}", want: true},
		"in a longer text":    {doc: "apiVersion: x/v1\nkind: Y\nmetadata: {name: y}\nspec: {a: see " + name + "}"},
		"without a hash":      {doc: "apiVersion: x/v1\nkind: Y\nmetadata: {name: y}\nspec: {a: cfg}"},
		"in another":          {doc: "apiVersion: x/v1\nkind: Y\nmetadata: {name: y, namespace: other}\nspec: {a: " + name + "}"},
		"kind with own rules": {doc: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: y}\nspec: {a: " + name + "}"},
		"itself":              {doc: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}"},
	}
	for text, tt := range tests {
		live := objects(t, tt.doc)
		if live[0].GetNamespace() == "nowhere" {
			live[0].SetNamespace("")
		}
		got, err := usage.Find(targets, live)
		if err != nil || (len(got[hashed]) == 1) != tt.want || len(got[cfg]) != 0 {
			t.Errorf("%s: users %v (%v), want some: %v", text, got, err, tt.want)
		}
	}
}

func TestHasHashSuffix(t *testing.T) {
	for name, want := range map[string]bool{
		"app-g5b2m5gtd8": true, "app-42m88h2ktf": true, "app": false, "app-0000000000": false, "web-6d4c5f7b8c-x7k2p": false,
		"app-g5b2m5gtd": false, "app-g5b2m5gtd82": false, "g5b2m5gtd8": false,
	} {
		if got := usage.HasHashSuffix(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestFindRights(t *testing.T) {
	const rbac = "apiVersion: rbac.authorization.k8s.io/v1\n"
	live := objects(t,
		"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: kept}\nimagePullSecrets: [{name: pull}]",
		rbac+"kind: RoleBinding\nmetadata: {name: a}\nroleRef: {kind: Role, name: r}\nsubjects: [{kind: User, name: u}, {kind: ServiceAccount, name: kept, namespace: shop}]",
		rbac+"kind: RoleBinding\nmetadata: {name: b}\nroleRef: {kind: ClusterRole, name: c}\nsubjects: [{kind: ServiceAccount, name: gone, namespace: shop}]",
	)
	id := func(kind, namespace, name string) object.ID {
		return object.ID{Group: "rbac.authorization.k8s.io", Kind: kind, Namespace: namespace, Name: name}
	}
	pull := object.ID{Kind: "Secret", Namespace: "shop", Name: "pull"}
	want := map[object.ID]string{
		pull: "ServiceAccount/shop/kept", id("RoleBinding", "shop", "a"): "ServiceAccount/shop/kept",
		id("Role", "shop", "r"): "RoleBinding/shop/a", id("ClusterRole", "", "c"): "RoleBinding/shop/b",
	}
	targets := object.NewSet(pull, id("RoleBinding", "shop", "a"), id("RoleBinding", "shop", "b"), id("Role", "shop", "r"), id("ClusterRole", "", "c"))
	kept := object.NewSet(object.ID{Kind: "ServiceAccount", Namespace: "shop", Name: "kept"})
	got, err := usage.Among(targets, live, usage.Stale{Kept: kept})
	if err != nil || len(got) != len(want) {
		t.Fatalf("users %v (%v), want %v", got, err, want)
	}
	for target, user := range want {
		if lines := usage.Summary(got[target]); len(lines) != 1 || lines[0] != user {
			t.Errorf("%s: users %q, want %s", target, lines, user)
		}
	}
}
