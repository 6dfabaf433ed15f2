package report_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/report"
	"github.com/holdfast-gitops/holdfast/internal/rival"
)

// leftByFlux is a cluster as Flux left it, with one of everything that the check looks for.
func leftByFlux() report.TakeoverFacts {
	ids := map[string]object.ID{
		"same":     {Kind: "ConfigMap", Namespace: "shop", Name: "same"},
		"gone":     {Kind: "ConfigMap", Namespace: "shop", Name: "gone"},
		"bare":     {Kind: "ConfigMap", Namespace: "shop", Name: "bare"},
		"foreign":  {Kind: "ConfigMap", Namespace: "shop", Name: "foreign"},
		"leaving":  {Kind: "ConfigMap", Namespace: "shop", Name: "leaving"},
		"kubectl":  {Kind: "ConfigMap", Namespace: "shop", Name: "kubectl"},
		"unread":   {Group: "example.com", Kind: "Thing", Namespace: "shop", Name: "unread"},
		"rival":    {Group: "apps", Kind: "Deployment", Namespace: "flux-system", Name: "kustomize-controller"},
		"crd":      {Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: rival.Definition},
		"external": {Kind: "ConfigMap", Namespace: "far", Name: "away"},
	}
	entries := func(names ...string) *fluxv1.ResourceInventory {
		inv := &fluxv1.ResourceInventory{}
		for _, name := range names {
			inv.Entries = append(inv.Entries, fluxv1.ResourceRef{ID: ids[name].Inventory(), Version: "v1"})
		}
		return inv
	}
	owned := func(ks, manager string) *metav1.PartialObjectMetadata {
		obj := &metav1.PartialObjectMetadata{}
		obj.Labels = map[string]string{v1.OwnerNameLabel: ks, v1.OwnerNamespaceLabel: "flux-system"}
		obj.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, Operation: "Apply"}, {Manager: "kube-controller-manager", Subresource: "status"}}
		return obj
	}
	kustomization := func(name string, inv *fluxv1.ResourceInventory) v1.Kustomization {
		ks := v1.Kustomization{ObjectMeta: metav1.ObjectMeta{Namespace: "flux-system", Name: name, Generation: 1}}
		ks.Status.ObservedGeneration, ks.Status.Inventory = 1, inv
		ks.Status.LastAppliedRevision, ks.Status.LastAttemptedRevision = "main@sha1:1f0c9d2", "main@sha1:1f0c9d2"
		ks.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "ReconciliationSucceeded"}}
		return ks
	}
	shop := kustomization("shop", entries("same", "gone", "bare", "foreign", "leaving", "kubectl", "unread"))
	shop.Status.LastAttemptedRevision = "main@sha1:8be41a7"
	remote := kustomization("remote", entries("external"))
	remote.Spec.KubeConfig = &fluxmeta.KubeConfigReference{}
	leaving, bare := owned("shop", v1.ApplyManager), owned("shop", v1.ApplyManager)
	leaving.DeletionTimestamp, bare.Labels = &metav1.Time{Time: now}, nil
	return report.TakeoverFacts{
		Kustomizations: []v1.Kustomization{kustomization("flux-system", entries("rival", "crd")), shop, remote},
		Objects: map[object.ID]*metav1.PartialObjectMetadata{
			ids["same"]: owned("shop", v1.ApplyManager), ids["gone"]: nil, ids["bare"]: bare, ids["foreign"]: owned("other", v1.ApplyManager),
			ids["leaving"]: leaving, ids["kubectl"]: owned("shop", "kubectl-client-side-apply"),
			ids["rival"]: owned("flux-system", v1.ApplyManager), ids["crd"]: owned("flux-system", v1.ApplyManager),
		},
		Unread: map[object.ID]string{ids["unread"]: "things.example.com is forbidden"},
		Rivals: []rival.Alive{{Controller: rival.KustomizeController, Namespace: "flux-system", Holder: "kustomize-controller-5d_1",
			Lease: "flux-system/kustomize-controller-leader-election", Seen: now.Add(-3 * time.Second)}},
		Workloads:     []report.Workload{{ID: ids["rival"], Controller: rival.KustomizeController}},
		Definition:    report.DefinitionFlux,
		FluxInstances: []string{"flux-system/flux"},
	}
}

// What is in the way is found, one by one; what is dealt with is not.
func TestTakeoverFindings(t *testing.T) {
	subjects := func(f report.TakeoverFacts) string {
		var all []string
		for _, finding := range report.TakeoverOf(f, now).Findings {
			all = append(all, finding.Subject)
			if len(finding.Do) == 0 || finding.Message == "" {
				t.Errorf("finding %+v does not say what to do", finding)
			}
		}
		return strings.Join(all, " ")
	}
	f := leftByFlux()
	if got, want := subjects(f), "kustomize-controller "+rival.Definition; got != want {
		t.Errorf("findings are %s, want %s", got, want)
	}
	f.Rivals = nil
	if got, want := subjects(f), "Deployment/flux-system/kustomize-controller "+rival.Definition; got != want {
		t.Errorf("with a controller that shows no sign of life: %s, want %s", got, want)
	}
	f.Workloads[0].Stopped, f.Definition = true, report.DefinitionAbsent
	if got := subjects(f); got != rival.Definition {
		t.Errorf("without a definition: %s", got)
	}
	f.Definition = report.DefinitionOwn
	if a := report.TakeoverOf(f, now); !a.Ready || len(a.Findings) != 0 {
		t.Errorf("when all is done: %+v", a.Findings)
	}
}

// The patch leaves the definition in the repository: Flux would delete what is gone from there.
func TestTakeoverPatch(t *testing.T) {
	f := leftByFlux()
	a := report.TakeoverOf(f, now)
	if !strings.Contains(a.Patch, "kustomize.toolkit.fluxcd.io~1ssa, value: Ignore") || !strings.Contains(a.Patch, "/spec/replicas, value: 0") ||
		strings.Contains(a.Patch, "delete") || !slices.Equal(a.PatchIn, []string{"flux-system/flux-system"}) {
		t.Errorf("patch for %v:\n%s", a.PatchIn, a.Patch)
	}
	f.Workloads[0].Stopped = true // by hand: the repository starts it again
	if a = report.TakeoverOf(f, now); !strings.Contains(a.Patch, "replicas") {
		t.Errorf("scaled by hand, the patch is\n%s", a.Patch)
	}
	f.Workloads[0].InGit = true
	if a = report.TakeoverOf(f, now); strings.Contains(a.Patch, "replicas") {
		t.Errorf("patched in Git, the patch is\n%s", a.Patch)
	}
	f.Kustomizations[0].Status.Rollout = &v1.RolloutStatus{Phase: v1.PhaseHealthy} // holdfast built it
	if a = report.TakeoverOf(f, now); a.Patch != "" {
		t.Errorf("where holdfast found nothing to skip, the patch is\n%s", a.Patch)
	}
}

// keeping is a Kustomization that keeps an object for a reason.
func keeping(reason v1.RetentionReason) v1.Kustomization {
	ks := v1.Kustomization{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop", Generation: 1}}
	ks.Spec.Prune = true
	ks.Status.ObservedGeneration = 1
	ks.Status.Rollout = &v1.RolloutStatus{Phase: v1.PhaseHealthy}
	if reason != "" {
		ks.Status.Rollout.RetainedCount = 1
		ks.Status.Rollout.Retained = []v1.RetainedObject{{ID: "team_old__ConfigMap", Reason: reason, Users: []string{"Pod/team/web"}, UserCount: 1, Until: "its users are gone"}}
	}
	return ks
}

// Flux may not take over while it would delete, or apply, what holdfast keeps from it.
func TestHandback(t *testing.T) {
	with := func(reason v1.RetentionReason, change func(*v1.Kustomization)) v1.Kustomization {
		ks := keeping(reason)
		change(&ks)
		return ks
	}
	tests := map[string]struct {
		ks      v1.Kustomization
		says    string
		deletes int
		note    string
	}{
		"nothing kept":           {ks: keeping("")},
		"never seen by holdfast": {ks: v1.Kustomization{}},
		"in use":                 {ks: keeping(v1.RetainedInUse), says: "keeps 1 object that Flux deletes at once", deletes: 1},
		"awaits health":          {ks: keeping(v1.RetainedAwaitingHealth), says: "at once", deletes: 1},
		"awaits a person":        {ks: keeping(v1.RetainedAwaitingConfirmation), says: "at once", deletes: 1},
		"moved":                  {ks: keeping(v1.RetainedMovedElsewhere), says: "at once", deletes: 1},
		"protected":              {ks: keeping(v1.RetainedProtected), says: "at once", deletes: 1},
		"unverified":             {ks: keeping(v1.RetainedUnverified), says: "at once", deletes: 1},
		"refused":                {ks: keeping(v1.RetainedDeleteFailed), says: "at once", deletes: 1},
		"prune disabled":         {ks: keeping(v1.RetainedPruneDisabled)},
		"on its way out":         {ks: keeping(v1.RetainedTerminating), says: "still deleting 1 object, in order: Flux deletes what is left of it at once", deletes: 1},
		"deleted after another": {ks: with(v1.RetainedTerminating, func(ks *v1.Kustomization) {
			ks.Status.Rollout.Retained[0].Message = "Database/team/db is deleted first"
		}), says: "in any order", deletes: 1},
		"on its way out, and suspended": {ks: with(v1.RetainedTerminating, func(ks *v1.Kustomization) { ks.Spec.Suspend = true }), says: "when it is resumed", deletes: 1},
		"more than status lists":        {ks: with(v1.RetainedPruneDisabled, func(ks *v1.Kustomization) { ks.Status.Rollout.RetainedCount = 3 }), says: "keeps 2 objects"},
		"does not prune":                {ks: with(v1.RetainedPruneOff, func(ks *v1.Kustomization) { ks.Spec.Prune = false }), note: "Flux forgets 1 object"},
		"suspended":                     {ks: with(v1.RetainedInUse, func(ks *v1.Kustomization) { ks.Spec.Suspend = true }), says: "when it is resumed", deletes: 1},
		"policy":                        {ks: with("", func(ks *v1.Kustomization) { ks.Spec.Rollout = &v1.RolloutPolicy{} }), says: "has spec.rollout"},
		"policy, not seen":              {ks: v1.Kustomization{Spec: v1.KustomizationSpec{Rollout: &v1.RolloutPolicy{}}}, says: "has spec.rollout"},
		"pinned":                        {ks: with("", func(ks *v1.Kustomization) { ks.Status.Rollout.Pin = &v1.Pin{} }), says: "is pinned"},
		"rolled back":                   {ks: with("", func(ks *v1.Kustomization) { ks.Status.Rollout.Skipped = &v1.SkippedRevision{} }), says: "was rolled back"},
		"applying":                      {ks: with("", func(ks *v1.Kustomization) { ks.Status.Rollout.Phase = v1.PhaseApplying }), says: "on its way (Applying)"},
		"verifying":                     {ks: with("", func(ks *v1.Kustomization) { ks.Status.Rollout.Phase = v1.PhaseVerifying }), says: "on its way"},
		"held":                          {ks: with("", func(ks *v1.Kustomization) { ks.Status.Rollout.Phase = v1.PhaseHeld }), says: "on its way"},
		"held, and does not prune":      {ks: with("", func(ks *v1.Kustomization) { ks.Status.Rollout.Phase, ks.Spec.Prune = v1.PhaseHeld, false })},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := report.HandbackOf(report.HandbackFacts{Kustomizations: []v1.Kustomization{tt.ks}, Definition: report.DefinitionOwn})
			var all []string
			for _, f := range a.Findings {
				all = append(all, f.Message)
			}
			if text := strings.Join(all, "; "); a.Ready != (tt.says == "") || !strings.Contains(text, tt.says) {
				t.Errorf("ready %t with %q, want %q", a.Ready, text, tt.says)
			}
			if len(a.Deletes) != tt.deletes {
				t.Errorf("it would delete %v, want %d", a.Deletes, tt.deletes)
			}
			if notes := strings.Join(a.Notes, "; "); (notes == "") != (tt.note == "") || !strings.Contains(notes, tt.note) {
				t.Errorf("notes %q, want %q", notes, tt.note)
			}
		})
	}
}
