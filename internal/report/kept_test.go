package report_test

import (
	"bytes"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// asking is a Kustomization with a deletion that waits for a person.
func asking() v1.Kustomization {
	return ks("reports", ready(metav1.ConditionTrue, "ReconciliationSucceeded", "Applied"), phase(v1.PhaseHealthy),
		kept("team_old__ConfigMap", v1.RetainedAwaitingConfirmation), kept("team_db__PersistentVolumeClaim", v1.RetainedAwaitingConfirmation),
		kept("team_unread__ConfigMap", v1.RetainedAwaitingConfirmation), kept("team_stuck__ConfigMap", v1.RetainedDeleteFailed),
		func(k *v1.Kustomization) {
			r := k.Status.Rollout
			for i := range r.Retained[:3] {
				r.Retained[i].Until, r.Retained[i].Message = "its deletion is confirmed", "part of a prune of 3 of 9 objects; maxPrune is 20%"
			}
			r.Retained[0].UID, r.Retained[1].UID = "u1", "u2"
			r.Retained[3].Message, r.Retained[3].Until = "admission webhook says no", "the API server accepts the deletion"
			r.PendingPrune = &v1.PendingPrune{Digest: "of the controller", Count: 2,
				Message: "2 of 9 objects are not deleted until that is confirmed: 1 ConfigMap, 1 PersistentVolumeClaim"}
			k.Status.Conditions = append(k.Status.Conditions, metav1.Condition{Type: v1.PruneHeldCondition, Status: metav1.ConditionTrue})
		})
}

// behind is a Kustomization that keeps what left the source while pruning was off.
func behind() v1.Kustomization {
	return ks("reports", ready(metav1.ConditionTrue, "ReconciliationSucceeded", "Applied"), phase(v1.PhaseHealthy),
		kept("team_old__ConfigMap", v1.RetainedPruneOff), kept("team_db__PersistentVolumeClaim", v1.RetainedPruneOff),
		kept("team_used__ConfigMap", v1.RetainedInUse),
		func(k *v1.Kustomization) {
			k.Status.Rollout.Releasable = &v1.ReleasableObjects{Digest: "of the controller", Count: 5}
		})
}

func TestKeptAndConfirmText(t *testing.T) {
	all := append(fleet(), asking())
	waiting := asking()
	confirmed := asking()
	confirmed.Annotations = map[string]string{v1.AnnotationConfirmPrune: report.ConfirmationOf(&confirmed).Digest}
	another := asking()
	another.Annotations = map[string]string{v1.AnnotationConfirmPrune: "0123456789abcdef"}
	calm, leftBehind, letGo := infra(), behind(), behind()
	letGo.Annotations = map[string]string{v1.AnnotationReleaseKept: report.ReleaseOf(&letGo).Digest}
	for name, answer := range map[string]text{
		"kept_all": report.KeptOf(all, ""), "kept_reason": report.KeptOf(all, v1.RetainedInUse), "kept_none": report.KeptOf(nil, ""),
		"confirm_plan": report.ConfirmationOf(&waiting), "confirm_done": report.ConfirmationOf(&confirmed),
		"confirm_another": report.ConfirmationOf(&another), "confirm_nothing": report.ConfirmationOf(&calm),
		"release_plan": report.ReleaseOf(&leftBehind), "release_done": report.ReleaseOf(&letGo), "release_nothing": report.ReleaseOf(&calm),
		"status_asking": report.StatusOf([]v1.Kustomization{asking()}, sources(), nil), "why_asking": whyKustomization([]v1.Kustomization{asking()}, "reports"),
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := answer.WriteText(&got, report.TextOptions{Now: now}); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", got.Bytes())
		})
	}
}

// The digest is over what is shown: what could not be read is not shown, and so not confirmed.
func TestConfirmationIsAboutWhatIsShown(t *testing.T) {
	k := asking()
	c := report.ConfirmationOf(&k)
	if len(c.Objects) != 2 || c.Digest == "" || c.Digest == k.Status.Rollout.PendingPrune.Digest || c.Confirmed {
		t.Errorf("%+v", c)
	}
	k.Status.Rollout.Retained[1].UID = "another"
	if again := report.ConfirmationOf(&k); again.Digest == c.Digest {
		t.Error("an object made anew has the digest of the old one")
	}
}
