package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// waves has one object of every kind of wave, in the order of their deletion, and equals side by side.
var waves = [][]string{
	{"Database.example.com/a/x", "Gateway.gateway.networking.k8s.io/a/x", "HelmRelease.helm.toolkit.fluxcd.io/a/x",
		"VolumeSnapshot.snapshot.storage.k8s.io/a/x", "Cluster.cluster.x-k8s.io/a/x"},
	{"MutatingAdmissionPolicyBinding.admissionregistration.k8s.io/x", "ValidatingWebhookConfiguration.admissionregistration.k8s.io/x"},
	{"CronJob.batch/a/x", "DaemonSet.apps/a/x", "Deployment.apps/a/x", "HorizontalPodAutoscaler.autoscaling/a/x", "Job.batch/a/x",
		"Pod/a/x", "ReplicaSet.apps/a/x", "ReplicationController/a/x", "StatefulSet.apps/a/x"},
	{"Kustomization.kustomize.toolkit.fluxcd.io/a/x"},
	{"ClusterRole.rbac.authorization.k8s.io/x", "ClusterRoleBinding.rbac.authorization.k8s.io/x",
		"Role.rbac.authorization.k8s.io/a/x", "RoleBinding.rbac.authorization.k8s.io/a/x", "ServiceAccount/a/x"},
	{"Ingress.networking.k8s.io/a/x", "Service/a/x"},
	{"NetworkPolicy.networking.k8s.io/a/x", "PodDisruptionBudget.policy/a/x", "ResourceQuota/a/x"},
	{"ConfigMap/a/x", "PersistentVolumeClaim/a/x", "Secret/a/x"},
	{"APIService.apiregistration.k8s.io/x", "PersistentVolume/x", "PriorityClass.scheduling.k8s.io/x", "StorageClass.storage.k8s.io/x"},
	{"Namespace/z"},
	{"CustomResourceDefinition.apiextensions.k8s.io/databases.example.com"},
}

func waveOf(of object.ID) int {
	for i, wave := range waves {
		for _, name := range wave {
			kind := id(name)
			if kind.Group == of.Group && kind.Kind == of.Kind {
				return i
			}
		}
	}
	panic("no wave for " + of.String())
}

// deletionOrder returns the deletions of a plan in which nothing waits for another.
func deletionOrder(stale []plan.Stale) []object.ID {
	f := facts(stale...)
	// Refused once and due again: nobody waits for it, so that the whole order shows in one plan.
	for i := range f.Stale {
		f.Stale[i].Refused = &plan.Refusal{At: now.Add(-retry)}
	}
	var ids []object.ID
	for _, d := range plan.Prune(f).Delete {
		ids = append(ids, d.ID)
	}
	return ids
}

func TestWaves(t *testing.T) {
	var stale []plan.Stale
	for _, wave := range waves {
		for _, name := range wave {
			stale = append(stale, free(name))
		}
	}
	slices.Reverse(stale)
	got := deletionOrder(stale)
	if len(got) != len(stale) {
		t.Fatalf("%d of %d are deleted", len(got), len(stale))
	}
	last := 0
	for _, id := range got {
		if w := waveOf(id); w < last {
			t.Errorf("%s of wave %d comes after wave %d", id, w, last)
		} else {
			last = w
		}
	}
}

// The order of deletion is the one order in which every pair is right, found by trying all orders.
func TestOrderAgreesWithBruteForce(t *testing.T) {
	var all []string
	for _, wave := range waves {
		all = append(all, wave...)
	}
	before := func(a, b object.ID) bool {
		if wa, wb := waveOf(a), waveOf(b); wa != wb {
			return wa < wb
		}
		return object.Compare(a, b) < 0
	}
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, 5, rapid.ID[string]).Draw(t, "stale")
		var stale []plan.Stale
		var ids []object.ID
		for _, name := range some {
			stale, ids = append(stale, free(name)), append(ids, id(name))
		}
		var right [][]object.ID
		permute(ids, func(order []object.ID) {
			for i := range order {
				for j := i + 1; j < len(order); j++ {
					if !before(order[i], order[j]) {
						return
					}
				}
			}
			right = append(right, slices.Clone(order))
		})
		if len(right) != 1 {
			t.Fatalf("%d orders are right: %v", len(right), right)
		}
		got := deletionOrder(stale)
		if !slices.Equal(got, right[0]) {
			t.Fatalf("order %v, want %v", got, right[0])
		}
	})
}

func permute(ids []object.ID, visit func([]object.ID)) {
	var rec func(int)
	rec = func(k int) {
		if k == len(ids) {
			visit(ids)
			return
		}
		for i := k; i < len(ids); i++ {
			ids[k], ids[i] = ids[i], ids[k]
			rec(k + 1)
			ids[k], ids[i] = ids[i], ids[k]
		}
	}
	rec(0)
}

// What a deletion needs goes last: custom resources are awaited by all, child Kustomizations by what they run as.
func TestEarlierWaves(t *testing.T) {
	const cr, child = "Database.example.com/a/db", "Kustomization.kustomize.toolkit.fluxcd.io/a/child"
	const operator, account = "Deployment.apps/a/operator", "ServiceAccount/a/runner"
	leaving := func(since string) func(*plan.Stale) {
		return func(s *plan.Stale) {
			switch since {
			case "now":
				s.Seen.DeletedAt = now
			case "timeout":
				s.Seen.DeletedAt = now.Add(-timeout)
			}
		}
	}
	const waits = "Terminating"
	tests := map[string]struct {
		first  plan.Stale
		others map[string]string
	}{
		"a custom resource is deleted first":    {free(cr), map[string]string{operator: waits, account: waits, child: waits}},
		"it is on its way out":                  {with(free(cr), leaving("now")), map[string]string{operator: waits, account: waits, child: waits}},
		"it was for the whole timeout":          {with(free(cr), leaving("timeout")), map[string]string{operator: "delete", child: "delete", account: waits, "Namespace/z": waits}},
		"a child Kustomization is deleted":      {free(child), map[string]string{operator: "delete", account: waits, "Namespace/z": waits}},
		"the child is on its way out":           {with(free(child), leaving("now")), map[string]string{operator: "delete", account: waits}},
		"the child was for the whole timeout":   {with(free(child), leaving("timeout")), map[string]string{operator: "delete", account: "delete"}},
		"it is gone":                            {with(free(cr), func(s *plan.Stale) { s.Seen = plan.Observation{Presence: plan.Absent} }), map[string]string{operator: "delete"}},
		"it is someone else's":                  {with(free(cr), func(s *plan.Stale) { s.Seen.OwnerName = "other" }), map[string]string{operator: "delete"}},
		"it is kept by its annotation":          {with(free(cr), func(s *plan.Stale) { s.Seen.DisabledBy = "prune: disabled" }), map[string]string{operator: "delete"}},
		"its deletion was refused":              {with(free(cr), func(s *plan.Stale) { s.Refused = &plan.Refusal{At: now, Message: "no"} }), map[string]string{operator: "delete"}},
		"it can't be read":                      {with(free(cr), func(s *plan.Stale) { s.Seen = plan.Observation{Why: "forbidden"} }), map[string]string{operator: "delete"}},
		"it was read without a UID":             {with(free(cr), func(s *plan.Stale) { s.Seen.UID = "" }), map[string]string{operator: "delete"}},
		"its users can't be listed":             {with(free(cr), func(s *plan.Stale) { s.Use = plan.Use{Why: "forbidden"} }), map[string]string{operator: "delete"}},
		"it is in use":                          {with(free(cr), func(s *plan.Stale) { s.Use.Users = []string{"Pod/a/p"} }), map[string]string{operator: "delete"}},
		"a resource of a group under k8s.io is": {free("VolumeSnapshot.snapshot.storage.k8s.io/a/s"), map[string]string{operator: waits}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			stale := []plan.Stale{tt.first}
			for other := range tt.others {
				stale = append(stale, free(other))
			}
			p := plan.Prune(facts(stale...))
			for other, want := range tt.others {
				wantOutcome(t, p, other, want)
			}
		})
	}
	p := plan.Prune(facts(free(cr), free("Database.example.com/a/other"), free(operator)))
	want := plan.Hold{Reason: v1.RetainedTerminating, Message: "Database/a/db is deleted first", Until: "Database/a/db is gone"}
	if got := hold(t, p, id(operator)); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
