package gitrepository

import (
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reasonNewArtifact is the reason of the event for a new artifact, as in Flux.
const reasonNewArtifact = "NewArtifact"

// Annotations of events, as in Flux. Notifications group and link events by them.
var (
	annotationRevision = sourcev1.GroupVersion.Group + "/revision"
	annotationDigest   = sourcev1.GroupVersion.Group + "/digest"
)

// event is one to be recorded.
type event struct {
	kind, reason, message string
	annotations           map[string]string
}

// eventOf is the event of a reconciliation, if it has one: a new artifact, a failure that is not the former one, or
// the end of a failure. It is pure.
func eventOf(old []metav1.Condition, o outcome) *event {
	ready := apimeta.FindStatusCondition(old, meta.ReadyCondition)
	if f := o.failure; f != nil {
		if ready != nil && ready.Status == metav1.ConditionFalse && ready.Message == f.err.Error() {
			return nil
		}
		return &event{kind: corev1.EventTypeWarning, reason: f.reason, message: f.err.Error()}
	}
	annotations := map[string]string{annotationRevision: o.artifact.Revision, annotationDigest: o.artifact.Digest}
	if p := o.published; p != nil {
		message := fmt.Sprintf("stored artifact with %d files from commit '%s'", p.files, p.describe())
		return &event{kind: corev1.EventTypeNormal, reason: reasonNewArtifact, message: message, annotations: annotations}
	}
	if ready != nil && ready.Status == metav1.ConditionFalse {
		message := fmt.Sprintf("stored artifact for revision '%s'", o.artifact.Revision)
		return &event{kind: corev1.EventTypeNormal, reason: meta.SucceededReason, message: message, annotations: annotations}
	}
	return nil
}

// describe names a commit for people.
func (p *published) describe() string {
	if p.subject == "" {
		return p.commit
	}
	return p.subject
}
