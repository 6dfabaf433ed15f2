package policy

import (
	"encoding/json"
	"fmt"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// Pause is what the annotation holdfast.dev/pause says. It stops a Kustomization as spec.suspend does, and ends by itself.
type Pause struct {
	// Reason and By are for people.
	Reason string `json:"reason"`
	By     string `json:"by,omitempty"`
	// At is when it was asked for, and Until when it ends.
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`
	// Unclear is true when the annotation can't be understood. Such a pause has no end: going on because of a misspelling is no way out.
	Unclear bool `json:"-"`
}

// PauseOf is the pause of a Kustomization that is in force at a time; nil for none.
func PauseOf(ks *v1.Kustomization, now time.Time) *Pause {
	said := ks.GetAnnotations()[v1.AnnotationPause]
	if said == "" {
		return nil
	}
	p := &Pause{}
	if err := json.Unmarshal([]byte(said), p); err != nil || p.Until.IsZero() {
		return &Pause{Unclear: true}
	}
	if !now.Before(p.Until) {
		return nil
	}
	return p
}

// Stops tells whether a person stopped a Kustomization: by spec.suspend, or by a pause that is in force.
func Stops(ks *v1.Kustomization, now time.Time) bool {
	return ks.Spec.Suspend || PauseOf(ks, now) != nil
}

// maxPauseReason bounds what is shown of a reason.
const maxPauseReason = 200

// String says why, by whom, and until when.
func (p Pause) String() string {
	if p.Unclear {
		return "the annotation " + v1.AnnotationPause + " can't be understood, so that it has no end"
	}
	reason := []rune(p.Reason)
	if len(reason) > maxPauseReason {
		reason = append(reason[:maxPauseReason-3], []rune("...")...)
	}
	text := fmt.Sprintf("%q", string(reason))
	if p.By != "" {
		text += " (" + p.By + ")"
	}
	return text + ", until " + p.Until.UTC().Format(time.RFC3339)
}
