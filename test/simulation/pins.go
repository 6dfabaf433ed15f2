package simulation

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// drawRecovery adds what follows a failed revision to a policy.
func (w *world) drawRecovery(rollout map[string]any) {
	if !w.rollsBack {
		return
	}
	if !chance(w.rng, 4) {
		rollout["onFailure"] = "Rollback"
	}
	if chance(w.rng, 3) {
		rollout["rollbackOn"] = "Any"
	}
	if chance(w.rng, 3) {
		rollout["keepRevisions"] = int64(1 + w.rng.IntN(3))
	}
}

// annotateRecovery says the same in annotations.
func (w *world) annotateRecovery(a map[string]string) {
	key := pick(w.rng, []string{v1.AnnotationOnFailure, v1.AnnotationOnFailure, v1.AnnotationRollbackOn, v1.AnnotationKeepRevisions})
	if a[key] != "" {
		delete(a, key)
		return
	}
	a[key] = map[string]string{v1.AnnotationOnFailure: "Rollback", v1.AnnotationRollbackOn: "Any", v1.AnnotationKeepRevisions: "1"}[key]
}

// breakOrMend publishes a revision with something broken in it, or the next one in which nothing is.
func (w *world) breakOrMend() string {
	s := pick(w.rng, w.sources)
	next, broken := s.newest().tree.clone(), false
	for i := range next.Components {
		broken = broken || next.Components[i].Broken
		next.Components[i].Broken = false
	}
	if len(next.Components) == 0 {
		return ""
	}
	if c := &next.Components[w.rng.IntN(len(next.Components))]; !broken {
		c.Broken, c.Config = true, w.counter
	}
	w.publish(s, next)
	return fmt.Sprintf("%s has %s: %+v", s.name, s.newest().revision, s.newest().tree)
}

// command is a person who chooses a revision, lets go of one, or asks to try again.
func (w *world) command() string {
	name := pick(w.rng, w.names)
	ks := w.kustomization(name)
	if ks == nil || !w.rollsBack {
		return ""
	}
	w.commands++
	value := fmt.Sprintf("command-%d", w.commands)
	switch w.rng.IntN(4) {
	case 0:
		return w.annotated(name, v1.AnnotationRelease, value)
	case 1:
		return w.annotated(name, v1.AnnotationRetry, value)
	}
	if value = w.request(ks); value == "" {
		return ""
	}
	return w.annotated(name, v1.AnnotationRollback, value)
}

// request is what `holdfast rollback` writes, and now and then what nobody understands.
func (w *world) request(ks *v1.Kustomization) string {
	to := []string{"sha256:none"}
	if r := ks.Status.Rollout; r != nil {
		for _, d := range r.Stored {
			to = append(to, d.Digest, d.Digest)
		}
	}
	if chance(w.rng, 10) {
		return fmt.Sprintf("nonsense %d", w.commands)
	}
	request := v1.RollbackRequest{To: pick(w.rng, to), By: "someone", Reason: fmt.Sprintf("reason %d", w.commands), At: metav1.NewTime(w.now),
		Until: pick(w.rng, []string{"next", "next", "released", w.now.Add(5 * time.Minute).Format(time.RFC3339), "soon"})}
	text, err := json.Marshal(request)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// annotated sets an annotation of a Kustomization.
func (w *world) annotated(name, key, value string) string {
	if w.edited(kustomizationID(name), func(u *unstructured.Unstructured) {
		a := u.GetAnnotations()
		if a == nil {
			a = map[string]string{}
		}
		a[key] = value
		u.SetAnnotations(a)
	}) == "" {
		return ""
	}
	return fmt.Sprintf("someone sets %s of %s to %s", key, name, value)
}

// damage deletes a stored revision, or makes another one of it.
func (w *world) damage() string {
	var stored []object.ID
	w.cluster.Each(schemaKind("", "Secret"), func(u *unstructured.Unstructured) {
		if isRevision(u) {
			stored = append(stored, object.IDOf(u))
		}
	})
	if len(stored) == 0 {
		return ""
	}
	id := pick(w.rng, stored)
	w.damaged = true
	if chance(w.rng, 2) && w.cluster.Delete("someone", id) {
		return "someone deletes " + id.String()
	}
	if w.edited(id, func(u *unstructured.Unstructured) { u.Object["data"] = map[string]any{"objects": "eA=="} }) == "" {
		return ""
	}
	return "someone damages " + id.String()
}

// releaseAll is a person who takes the revision of the source again wherever another one is held.
func (w *world) releaseAll() {
	for _, name := range w.names {
		ks := w.kustomization(name)
		if ks == nil || heldOn(ks) == "" {
			continue
		}
		if heard := ks.Status.Rollout.Heard; ks.Annotations[v1.AnnotationRelease] != "" && (heard == nil || heard.Release != ks.Annotations[v1.AnnotationRelease]) {
			continue // not taken up yet
		}
		w.commands++
		w.say("%s", w.annotated(name, v1.AnnotationRelease, fmt.Sprintf("command-%d", w.commands)))
	}
}
