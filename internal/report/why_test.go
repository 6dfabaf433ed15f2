package report_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/kustomize"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

func textOf(t *testing.T, a text) string {
	t.Helper()
	var b bytes.Buffer
	if err := a.WriteText(&b, report.TextOptions{Now: now}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func says(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("the answer does not say %q:\n%s", part, got)
		}
	}
}

// unjudged is a Kustomization without spec.wait: status.lastAppliedRevision is the broken revision at once.
func unjudged() v1.Kustomization {
	return ks("eager", ready(metav1.ConditionTrue, "ReconciliationSucceeded", "Applied"), phase(v1.PhaseHeld),
		culprit("Deployment/team/eager", "InProgress", "Updated: 1/3"),
		kept("team_eager-config-old__ConfigMap", v1.RetainedAwaitingHealth),
		owns("team_eager-config-old__ConfigMap", "team_eager-config-new__ConfigMap"),
		func(k *v1.Kustomization) {
			k.Status.Rollout.LastHealthy = &v1.RevisionDigest{Revision: revision1}
			k.Status.Rollout.Running = &v1.RevisionDigest{Revision: revision2}
		})
}

// Old pods were said to serve the broken revision, which is the one that was applied last.
func TestOldPodsServeTheLastHealthyRevision(t *testing.T) {
	k := unjudged()
	seen := report.SeenKustomization{Kustomization: &k, Safe: []report.Safe{
		{Workload: "Deployment/team/eager", ReadyOldPods: 3, ReadyPods: 3, Wanted: 3}}}
	a := report.KustomizationAnswerOf(seen)
	says(t, textOf(t, a), "they serve "+report.Short(revision1))
	if a.Kustomization.Runs != revision1 || a.Kustomization.Wants != revision2 {
		t.Errorf("runs %s, wants %s", a.Kustomization.Runs, a.Kustomization.Wants)
	}
}

func TestRuns(t *testing.T) {
	tests := map[string]struct {
		change func(*v1.Kustomization)
		want   string
	}{
		"nothing was healthy yet": {want: ""},
		"applied by another controller before": {
			change: func(k *v1.Kustomization) { k.Status.LastAppliedRevision = revision1 }, want: revision1},
		"one was healthy": {
			change: func(k *v1.Kustomization) { k.Status.Rollout.LastHealthy = &v1.RevisionDigest{Revision: revision1} }, want: revision1},
		"no status of holdfast": {change: func(k *v1.Kustomization) { k.Status.Rollout = nil }, want: revision2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := ks("x", ready(metav1.ConditionTrue, "ReconciliationSucceeded", ""), phase(v1.PhaseVerifying))
			if test.change != nil {
				test.change(&k)
			}
			if got := report.KustomizationOf(&k, nil).Runs; got != test.want {
				t.Errorf("runs %q, want %q", got, test.want)
			}
		})
	}
}

// A ConfigMap that was deleted by hand was called still safe.
func TestWhatIsGoneIsNotSafe(t *testing.T) {
	k := unjudged()
	seen := report.SeenKustomization{Kustomization: &k,
		Safe: []report.Safe{{Workload: "Deployment/team/eager", Wanted: 3}},
		Absent: map[string][]string{
			"team_eager-config-old__ConfigMap": {"ReplicaSet/team/eager-1 (3 pods)"},
			"team_eager-config-new__ConfigMap": nil,
		}}
	got := textOf(t, report.KustomizationAnswerOf(seen))
	says(t, got, "NOT SAFE", "Deployment team/eager: 0 of 3 pods ready",
		"GONE: ConfigMap team/eager-config-old was kept", "1 user refers to it: ReplicaSet team/eager-1 (3 pods)",
		"a revert to "+report.Short(revision1)+" creates it again",
		"MISSING ON THE CLUSTER\n  ConfigMap team/eager-config-new", "at once with: holdfast reconcile")
	if strings.Contains(got, "STILL SAFE") {
		t.Errorf("something is called safe:\n%s", got)
	}
}

// An object that is gone was answered for without those that still refer to it.
func TestWhyNamesTheUsersOfAnAbsentObject(t *testing.T) {
	seen := report.SeenObject{ID: cm("eager-config-old"), Looked: true, Users: []string{"Pod/team/a"}}
	says(t, textOf(t, report.ObjectAnswerOf(seen, []v1.Kustomization{unjudged()}, nil, true, nil)),
		"GONE: it was kept, and something else deleted it", "creates it again", "USED BY\n  Pod team/a")
}

// A Kustomization whose source can't be fetched was called healthy, without another word.
func TestWhySaysThatTheSourceFails(t *testing.T) {
	k := ks("plain", ready(metav1.ConditionTrue, "ReconciliationSucceeded", ""), phase(v1.PhaseHealthy),
		func(k *v1.Kustomization) { k.Spec.SourceRef.Name = "broken" })
	status := report.StatusOf([]v1.Kustomization{k}, sources(), nil)
	seen := report.SeenKustomization{Kustomization: &k, Sources: status.Sources}
	says(t, textOf(t, report.KustomizationAnswerOf(seen)), "is healthy", "SOURCE\n  GitRepository team/broken can't be fetched since",
		"(3d): repository not found; newer commits are not seen")
	says(t, textOf(t, status), "1 source can't be fetched: newer commits are not seen.")
	seen.Sources, seen.SourceAbsent = nil, true
	says(t, textOf(t, report.KustomizationAnswerOf(seen)), "GitRepository team/broken does not exist")
}

// NEXT said to push a fix, whatever the cause was.
func TestNextFitsTheCause(t *testing.T) {
	refused := func(reason, message string) func(*v1.Kustomization) {
		return func(k *v1.Kustomization) {
			ready(metav1.ConditionFalse, reason, message)(k)
			phase(v1.PhaseRefused)(k)
		}
	}
	tests := map[string]struct {
		changes []func(*v1.Kustomization)
		says    string
	}{
		"path": {says: `correct spec.path, which is "./no"`, changes: []func(*v1.Kustomization){
			refused("ArtifactFailed", "kustomization path not found: stat no"), func(k *v1.Kustomization) { k.Spec.Path = "./no" }}},
		"namespace": {says: "kubectl create namespace gone", changes: []func(*v1.Kustomization){
			refused("ReconciliationFailed", `ConfigMap/gone/a not found: namespaces "gone" not found`)}},
		"patches": {says: "correct spec.patches", changes: []func(*v1.Kustomization){
			refused("BuildFailed", "no resource matches patch target"),
			func(k *v1.Kustomization) { k.Spec.Patches = []kustomize.Patch{{Patch: "x"}} }}},
		"immutable": {says: "kustomize.toolkit.fluxcd.io/force: enabled", changes: []func(*v1.Kustomization){
			refused("ReconciliationFailed", "Deployment/a/b dry-run failed (Invalid): spec.selector: field is immutable")}},
		"kind": {says: "does not serve kind Widget", changes: []func(*v1.Kustomization){
			refused("ReconciliationFailed", "Widget/a/b: the cluster serves no kind Widget in example.com/v1: check apiVersion and kind")}},
		"source of another controller": {says: "kubectl describe ocirepository.source.toolkit.fluxcd.io", changes: []func(*v1.Kustomization){
			ready(metav1.ConditionFalse, "ArtifactFailed", "Source artifact not found"), phase(v1.PhaseWaiting),
			func(k *v1.Kustomization) { k.Spec.SourceRef.Kind = "OCIRepository" }}},
		"something else": {says: "push a fix", changes: []func(*v1.Kustomization){refused("BuildFailed", "wrong")}},
		"held":           {says: "applied again every 10m0s", changes: []func(*v1.Kustomization){ready(metav1.ConditionFalse, "HealthCheckFailed", "x"), phase(v1.PhaseHeld)}},
		"unseen spec": {says: "see whether a controller runs", changes: []func(*v1.Kustomization){
			ready(metav1.ConditionTrue, "", ""), phase(v1.PhaseHealthy), func(k *v1.Kustomization) { k.Generation = 2 }}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := ks("x", test.changes...)
			says(t, strings.Join(report.KustomizationAnswerOf(report.SeenKustomization{Kustomization: &k}).Next, "\n"), test.says)
		})
	}
}

func TestACircleOfDependenciesIsNamed(t *testing.T) {
	waits := []func(*v1.Kustomization){ready(metav1.ConditionFalse, "DependencyNotReady", "not ready"), phase(v1.PhaseWaiting)}
	a, b := ks("a", append(waits, after("b"))...), ks("b", append(waits, after("a"))...)
	says(t, textOf(t, report.KustomizationAnswerOf(report.SeenKustomization{Kustomization: &a, Others: []v1.Kustomization{b}})),
		"a circle of spec.dependsOn: team/a -> team/b -> team/a", "break the circle")
}

// A refused revision leaves everything as it was; since when is told for that revision, not for the first of several.
func TestRefusedSaysWhatStillRuns(t *testing.T) {
	k := ks("x", ready(metav1.ConditionFalse, "BuildFailed", "wrong"), phase(v1.PhaseRefused),
		func(k *v1.Kustomization) { k.Status.Rollout.LastHealthy = &v1.RevisionDigest{Revision: revision1} })
	git := sources()
	git[0].Status.Artifact = &fluxmeta.Artifact{Revision: revision2, LastUpdateTime: *ago(10 * time.Second)}
	seen := report.SeenKustomization{Kustomization: &k, Sources: report.StatusOf(nil, git, nil).Sources,
		Safe: []report.Safe{{Workload: "Deployment/team/x", ReadyPods: 2, Wanted: 2}}}
	says(t, textOf(t, report.KustomizationAnswerOf(seen)), "is refused at main@2222222: 10s so far",
		"nothing of main@2222222 was applied", "Deployment team/x: 2 of 2 pods ready; they serve main@1111111")
}

func TestObjectsInTwoInventoriesAreTold(t *testing.T) {
	a, b := ks("a", owns("team_x__ConfigMap", "team_y__ConfigMap")), ks("b", owns("team_y__ConfigMap"))
	says(t, textOf(t, report.KustomizationAnswerOf(report.SeenKustomization{Kustomization: &a, Others: []v1.Kustomization{b}})),
		"ALSO IN ANOTHER INVENTORY\n  ConfigMap team/y: team/b")
}

// A pod was said to be managed by nothing.
func TestWhyFollowsAPodUpToItsKustomization(t *testing.T) {
	seen := report.SeenObject{ID: object.ID{Kind: "Pod", Namespace: "team", Name: "shop-1-a"}, Exists: true, Meta: labelled(""),
		Makers: []object.ID{{Group: "apps", Kind: "ReplicaSet", Namespace: "team", Name: "shop-1"},
			{Group: "apps", Kind: "Deployment", Namespace: "team", Name: "shop"}},
		Trouble: &report.PodTrouble{Pod: "shop-1-a", Reason: "CrashLoopBackOff"}}
	says(t, textOf(t, report.ObjectAnswerOf(seen, fleet(), nil, true, nil)),
		"Pod team/shop-1-a was made by Deployment team/shop, which Kustomization team/shop has.", "CrashLoopBackOff",
		"ReplicaSet team/shop-1, made by Deployment team/shop")
}

func TestWhySaysWhatIsWrongWithASource(t *testing.T) {
	git := sources()
	source := report.SourceOf(&git[1])
	follower := ks("x", func(k *v1.Kustomization) { k.Spec.SourceRef.Name = "broken" })
	seen := report.SeenObject{ID: object.ID{Group: "source.toolkit.fluxcd.io", Kind: "GitRepository", Namespace: "team", Name: "broken"},
		Exists: true, Meta: labelled(""), Source: &source}
	says(t, textOf(t, report.ObjectAnswerOf(seen, []v1.Kustomization{follower}, nil, true, nil)),
		"can't be fetched since", "repository not found", "FOLLOWED BY\n  team/x")
}

func TestPausedSaysWhatRunsWhatWaitsAndSinceWhen(t *testing.T) {
	k := ks("x", ready(metav1.ConditionTrue, "ReconciliationSucceeded", ""), phase(v1.PhaseHealthy), func(k *v1.Kustomization) {
		k.Spec.Suspend, k.Status.LastAppliedRevision = true, revision1
		k.ManagedFields = []metav1.ManagedFieldsEntry{{Time: ago(time.Hour), FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:suspend":{}}}`)}}
	})
	says(t, textOf(t, report.KustomizationAnswerOf(report.SeenKustomization{Kustomization: &k})),
		"is paused, runs main@1111111; main@2222222 waits: 1h so far")
}

func TestStatusSaysWhereItLooked(t *testing.T) {
	says(t, textOf(t, report.Status{Where: "team"}), "No Kustomizations in namespace team; -A looks in all.")
	says(t, textOf(t, report.Status{}), "No Kustomizations in any namespace.")
}

// The last moment of a verification was told as "gives up in 0s".
func TestADeadlineThatIsReachedIsNoDuration(t *testing.T) {
	k := shop()
	for left, want := range map[time.Duration]string{90 * time.Second: "gives up in 1m30s.", 100 * time.Millisecond: "gives up now.", -time.Second: "gives up now."} {
		k.Status.Rollout.Deadline = &metav1.Time{Time: now.Add(left)}
		says(t, textOf(t, report.KustomizationAnswerOf(report.SeenKustomization{Kustomization: &k})), want)
	}
}

// "is needs confirmation" is no sentence.
func TestAStateFitsIntoASentence(t *testing.T) {
	k := asking()
	says(t, textOf(t, report.ObjectAnswerOf(report.SeenObject{ID: cm("old"), Exists: true, Meta: labelled("team/reports")},
		[]v1.Kustomization{func() v1.Kustomization { owns("team_old__ConfigMap")(&k); return k }()}, nil, true, nil)),
		"team/reports needs confirmation, wants")
}
