package kustomization

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

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
	// output is what the log shows of an apply instead of the message.
	output any
}

// changeLog is what an apply did, as the log shows it and as Flux's tools read it: what was done to each object, or, grouped,
// the objects to which each was done.
func changeLog(changes []string, grouped bool) any {
	perObject, perAction := map[string]string{}, map[string][]string{}
	for _, change := range changes {
		object, action, _ := strings.Cut(change, " ")
		perObject[object] = action
		perAction[action] = append(perAction[action], object)
	}
	if grouped {
		return perAction
	}
	return perObject
}

func (p *pass) event(kind, reason, message string) {
	p.events = append(p.events, event{kind: kind, reason: reason, message: message})
}

// changeReason is the reason of an event about what was done to objects: that it goes on, or, while the Kustomization is deleted, what its
// condition Ready said when that began. Flux does not touch the condition from then on, and takes the reason from it.
func (p *pass) changeReason() string {
	if p.ks.DeletionTimestamp == nil {
		return fluxmeta.ProgressingReason
	}
	if p.mem.leavingReason == "" {
		p.mem.leavingReason = cmp.Or(conditions.GetReason(p.start, fluxmeta.ReadyCondition), eventv1.EventSeverityInfo)
	}
	return p.mem.leavingReason
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
		switch {
		case e.kind == warning:
			log.Error(errors.New(e.message), "Reconciliation failed", "reason", e.reason)
		case e.output != nil:
			log.Info("server-side apply completed", "output", e.output)
		default:
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

// isNews tells whether the Ready condition says something that it did not say when the pass began, or somebody asked. An idle
// interval, or the same failure once more, is no news.
func (p *pass) isNews(out outcome) bool {
	was, is := conditions.Get(p.start, fluxmeta.ReadyCondition), conditions.Get(p.ks, fluxmeta.ReadyCondition)
	if was == nil || is == nil || p.changed || p.asked {
		return true
	}
	if out.state == stateReady && p.start.Status.LastAppliedRevision != p.ks.Status.LastAppliedRevision {
		return true
	}
	return was.Status != is.Status || was.Reason != is.Reason || (out.state != stateReady && was.Message != is.Message)
}

// revisionTold is the revision that an event is about, and the one that it was built from: that of the source, or, for a deletion,
// which needs no source, the one that was applied last.
func (p *pass) revisionTold() (revision, origin string) {
	switch {
	case p.artifact != nil:
		return p.artifact.Revision, p.originRevision()
	case p.ks.DeletionTimestamp != nil:
		return p.ks.Status.LastAppliedRevision, p.ks.Status.LastAppliedOriginRevision
	}
	return "", ""
}

// annotations of an event name the revision that it is about. The final one of a revision asks notification providers to
// update the commit's status.
func (p *pass) annotations(final bool) map[string]string {
	prefix := v1.GroupVersion.Group + "/"
	a := map[string]string{}
	revision, origin := p.revisionTold()
	if revision != "" {
		a[prefix+eventv1.MetaRevisionKey] = revision
	}
	if origin != "" {
		a[prefix+eventv1.MetaOriginRevisionKey] = origin
	}
	if final {
		a[prefix+eventv1.MetaCommitStatusKey] = eventv1.MetaCommitStatusUpdateValue
	}
	return a
}
