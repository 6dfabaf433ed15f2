package kustomization

import (
	"context"
	"errors"
	"fmt"

	eventv1 "github.com/fluxcd/pkg/apis/event/v1beta1"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// The event types of Kubernetes.
const (
	normal  = corev1.EventTypeNormal
	warning = corev1.EventTypeWarning
)

// event is one fact to tell. Events are collected during a pass and sent when its status is stored.
type event struct {
	kind, reason, message string
}

func (p *pass) event(kind, reason, message string) {
	p.events = append(p.events, event{kind: kind, reason: reason, message: message})
}

// emit sends the events of the pass, and the one about its outcome if the outcome is news.
func (p *pass) emit(ctx context.Context, out outcome) {
	if p.isNews(out) {
		p.outcomeEvents(ctx, out)
	} else if out.state == stateWaiting {
		p.events = nil
	}
	p.send(ctx)
}

// send sends the events that were collected, and logs them.
func (p *pass) send(ctx context.Context) {
	log := ctrl.LoggerFrom(ctx).WithValues("revision", p.revision())
	for _, e := range p.events {
		if e.kind == warning {
			log.Error(errors.New(e.message), "Reconciliation failed", "reason", e.reason)
		} else {
			log.Info(e.message, "reason", e.reason)
		}
		p.Recorder.AnnotatedEventf(p.ks, p.annotations(false), e.kind, e.reason, "%s", bounded(e.message))
	}
	p.events = nil
}

func (p *pass) outcomeEvents(ctx context.Context, out outcome) {
	switch out.state {
	case stateReady:
		p.send(ctx) // what was done comes before the end of it
		message := fmt.Sprintf("Reconciliation finished in %s, next run in %s",
			p.Now().Sub(p.now).Round(1e6), p.ks.Spec.Interval.Duration)
		p.Recorder.AnnotatedEventf(p.ks, p.annotations(true), normal, fluxmeta.ReconciliationSucceededReason, "%s", message)
		ctrl.LoggerFrom(ctx).Info(message, "revision", p.revision())
	case stateFailed, stateStalled:
		if !out.quiet {
			p.event(warning, out.reason, out.message)
		}
	case stateWaiting, stateProgressing:
	}
}

// isNews tells whether the Ready condition says something that it did not say when the pass began. An idle interval, or
// the same failure once more, is no news.
func (p *pass) isNews(out outcome) bool {
	was, is := conditions.Get(p.start, fluxmeta.ReadyCondition), conditions.Get(p.ks, fluxmeta.ReadyCondition)
	if was == nil || is == nil || p.changed {
		return true
	}
	if out.state == stateReady && p.start.Status.LastAppliedRevision != p.ks.Status.LastAppliedRevision {
		return true
	}
	return was.Status != is.Status || was.Reason != is.Reason || (out.state != stateReady && was.Message != is.Message)
}

// annotations of an event name the revision that it is about. The final one of a revision asks notification providers to
// update the commit's status.
func (p *pass) annotations(final bool) map[string]string {
	prefix := v1.GroupVersion.Group + "/"
	a := map[string]string{}
	if rev := p.revision(); rev != "" {
		a[prefix+eventv1.MetaRevisionKey] = rev
	}
	if p.artifact != nil && p.originRevision() != "" {
		a[prefix+eventv1.MetaOriginRevisionKey] = p.originRevision()
	}
	if final {
		a[prefix+eventv1.MetaCommitStatusKey] = eventv1.MetaCommitStatusUpdateValue
	}
	return a
}
