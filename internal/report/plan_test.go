package report_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// thing is an object of namespace team.
func thing(apiVersion, kind, name string, more map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range more {
		obj.Object[key] = value
	}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	obj.SetNamespace("team")
	obj.SetName(name)
	return obj
}

func effect(act execute.Act, live, applied *unstructured.Unstructured) execute.Effect {
	one := applied
	if one == nil {
		one = live
	}
	return execute.Effect{ID: object.IDOf(one), Act: act, Live: live, Applied: applied}
}

func web(image string) *unstructured.Unstructured {
	return thing("apps/v1", "Deployment", "web", map[string]any{"spec": map[string]any{"replicas": int64(3), "template": map[string]any{
		"spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": image}}}}}})
}

func generatedConfig(name, level string) *unstructured.Unstructured {
	return thing("v1", "ConfigMap", name, map[string]any{"data": map[string]any{"LOG_LEVEL": level}})
}

// seenStale is a stale object that was looked at.
func seenStale(kind, name string) plan.Stale {
	group := map[string]string{"Service": "", "ConfigMap": "", "PersistentVolumeClaim": ""}[kind]
	return plan.Stale{ID: object.ID{Group: group, Kind: kind, Namespace: "team", Name: name}, Seen: plan.Observation{Presence: plan.Present, UID: "u",
		ResourceVersion: "1", OwnerName: "shop", OwnerNamespace: "team"}, Use: plan.Use{Known: true}}
}

// wholePlan has everything that a plan can say.
func wholePlan() report.PlanFacts {
	ks := &v1.Kustomization{}
	ks.Namespace, ks.Name, ks.UID = "team", "shop", "uid"
	ks.Status.LastAppliedRevision = "main@sha1:1f0c9d2aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	secret := func(value string) *unstructured.Unstructured {
		return thing("v1", "Secret", "token", map[string]any{"data": map[string]any{"token": value}})
	}
	hpa := func(most int64) *unstructured.Unstructured {
		return thing("autoscaling/v2", "HorizontalPodAutoscaler", "web", map[string]any{"spec": map[string]any{"maxReplicas": most}})
	}
	refused := effect(execute.Refuse, nil, thing("v1", "Service", "bad", nil))
	refused.Why, refused.Err = "Service/team/bad dry-run failed (Invalid): spec.ports[0].port: must be between 1 and 65535", errors.New("no")
	skipped := effect(execute.Skip, nil, thing("v1", "ConfigMap", "left", nil))
	skipped.Why = "its metadata takes it out of the apply"
	replaced := effect(execute.Replace, thing("batch/v1", "Job", "migrate", map[string]any{"spec": map[string]any{"template": "1", "suspend": false}}),
		thing("batch/v1", "Job", "migrate", map[string]any{"spec": map[string]any{"template": "2"}}))
	replaced.Why = "an immutable field changes, and force lets it be recreated"
	unclear := effect(execute.Unclear, nil, thing("v1", "Secret", "hidden", nil))
	unclear.Why = `Secret/team/hidden read failed: secrets "hidden" is forbidden: User "jane" cannot get resource "secrets"`
	compared := effect(execute.Create, nil, thing("policy/v1", "PodDisruptionBudget", "web", nil))
	compared.Compared = "its Namespace comes with the same revision"
	f := report.PlanFacts{Kustomization: ks, Revision: "./apps/shop", Neighbours: 2,
		Effects: []execute.Effect{effect(execute.Configure, web("web:2.4.0"), web("web:2.4.1")), effect(execute.Configure, hpa(6), hpa(8)),
			effect(execute.Configure, secret("aHVudGVyMg=="), secret("b3RoZXI=")), effect(execute.Create, nil, generatedConfig("web-config-7h4dk2m5bt", "debug")),
			effect(execute.Unchanged, web("x"), web("x")), refused, skipped, replaced, unclear, compared},
		Old:    map[object.ID]*unstructured.Unstructured{object.IDOf(generatedConfig("web-config-9k2f8h7m6c", "")): generatedConfig("web-config-9k2f8h7m6c", "info")},
		Claims: []plan.Claim{{ID: object.IDOf(web("")), By: plan.Owner{Namespace: "team", Name: "other"}}},
		Unseen: []string{"what ServiceAccount/team/deployer may do: you may not impersonate it"},
	}
	old, claim, used, off := seenStale("Service", "web-old"), seenStale("PersistentVolumeClaim", "data"), seenStale("ConfigMap", "web-config-9k2f8h7m6c"), seenStale("ConfigMap", "off")
	claim.WasPruneOff, used.Use.Users, off.Seen.DisabledBy = true, []string{"ReplicaSet/team/web-5f9b (3 pods)"}, "prune: disabled"
	first := seenStale("ConfigMap", "first")
	first.Seen.When = v1.PruneImmediate
	facts := plan.Facts{Now: now, Owner: plan.Owner{Namespace: "team", Name: "shop"}, Policy: plan.Policy{Prune: true, Timeout: time.Minute}, Siblings: plan.Siblings{Known: true},
		Build: plan.Build{Revision: "r", Newest: "r", Applied: true, Healthy: true}, Stale: []plan.Stale{old, claim, used, off, first}}
	f.Stale, f.Healthy = facts.Stale, plan.Prune(facts)
	facts.Build.Healthy = false
	f.Applied = plan.Prune(facts)
	facts.Build.Applied = false
	f.Before = plan.Prune(facts)
	return f
}

func TestPlanText(t *testing.T) {
	refused := wholePlan()
	refused.Refused = "build failed: accumulating resources: no such file web.yaml\nsecond line"
	fresh := report.PlanFacts{Kustomization: wholePlan().Kustomization.DeepCopy(), Revision: "main@sha1:8be41a7aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
	pinned := report.PlanFacts{Kustomization: wholePlan().Kustomization.DeepCopy(), Revision: "r2", Effects: wholePlan().Effects[:1]}
	pinned.Kustomization.Spec.Suspend = true
	pinned.Kustomization.Status.Rollout = &v1.RolloutStatus{Pin: &v1.Pin{}}
	pinned.Course = plan.Course{Back: true, To: v1.RevisionDigest{Revision: "r0"}}
	for name, f := range map[string]report.PlanFacts{"plan": wholePlan(), "plan_refused": refused, "plan_nothing": fresh, "plan_pinned": pinned} {
		for _, diff := range []bool{false, true} {
			if diff && name != "plan" {
				continue
			}
			p := report.PlanOf(f)
			p.Diff = diff
			suffix := map[bool]string{true: "_diff"}[diff]
			var text, markdown bytes.Buffer
			if err := p.WriteText(&text, report.TextOptions{Now: now}); err != nil {
				t.Fatal(err)
			}
			if err := p.WriteMarkdown(&markdown); err != nil {
				t.Fatal(err)
			}
			golden(t, name+suffix+".txt", text.Bytes())
			golden(t, name+suffix+".md", markdown.Bytes())
			for _, value := range []string{"hunter2", "aHVudGVyMg", "b3RoZXI"} {
				if strings.Contains(text.String()+markdown.String(), value) {
					t.Errorf("%s shows a value of a Secret", name)
				}
			}
		}
	}
}

// What ends a plan with an exit code.
func TestPlanFindings(t *testing.T) {
	all := []report.PlanAlarm{report.AlarmPrune, report.AlarmReplace, report.AlarmMassPrune}
	p := report.PlanOf(wholePlan())
	if got := strings.Join(p.Alarms(all), ", "); !p.Changes() || !p.Fails() || got != "prune (2), replace (1), mass-prune (1)" {
		t.Errorf("changes %t, fails %t, alarms %s", p.Changes(), p.Fails(), got)
	}
	kept := wholePlan()
	kept.Effects = nil
	kept.Stale = kept.Stale[3:4]
	kept.Healthy = plan.Plan{Retain: []plan.Retention{{ID: kept.Stale[0].ID, Hold: plan.Hold{Reason: v1.RetainedPruneDisabled}}}}
	if !report.PlanOf(kept).Changes() {
		t.Error("what begins to be kept is no change")
	}
	kept.Kustomization.Status.Rollout = &v1.RolloutStatus{Retained: []v1.RetainedObject{{ID: "team_off__ConfigMap"}}}
	if report.PlanOf(kept).Changes() {
		t.Error("what is kept as before is a change")
	}
}

// What was encrypted, or may hold values of a Secret, is shown without values.
func TestPlanHidesValues(t *testing.T) {
	for name, change := range map[string]func(*report.PlanFacts){
		"one object": func(f *report.PlanFacts) { f.Hidden = object.NewSet(object.IDOf(web(""))) },
		"all":        func(f *report.PlanFacts) { f.AllHidden = true },
	} {
		f := wholePlan()
		f.Effects = f.Effects[:1]
		change(&f)
		p := report.PlanOf(f)
		p.Diff = true
		var b bytes.Buffer
		if err := p.WriteText(&b, report.TextOptions{}); err != nil {
			t.Fatal(err)
		}
		if text := b.String(); strings.Contains(text, "2.4.1") || !strings.Contains(text, "image: (changed)") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
