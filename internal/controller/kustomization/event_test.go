package kustomization

import (
	"strings"
	"testing"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// recorder writes events down.
type recorder struct {
	events      []string
	annotations []map[string]string
}

func (r *recorder) Event(runtime.Object, string, string, string) { panic("events carry annotations") }
func (r *recorder) Eventf(runtime.Object, string, string, string, ...any) {
	panic("events carry annotations")
}

func (r *recorder) AnnotatedEventf(_ runtime.Object, annotations map[string]string, kind, reason, _ string, args ...any) {
	message := args[0].(string)
	r.events = append(r.events, kind+" "+reason+": "+message)
	r.annotations = append(r.annotations, annotations)
}

// say reports an outcome on ks and returns the events about it.
func say(t *testing.T, ks *v1.Kustomization, out outcome, change func(*pass)) []string {
	t.Helper()
	r := &recorder{}
	p := passOn(ks)
	p.Recorder = r
	if change != nil {
		change(p)
	}
	p.report(out)
	p.emit(t.Context(), out)
	return r.events
}

func wantEvents(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// An event is news: a verdict is told once, and again only when it changes.
func TestEventsAreNews(t *testing.T) {
	ks := newKustomization()
	ready := outcomes["ready"].out
	failed := outcomes["failed"].out
	const finished = "Normal ReconciliationSucceeded: Reconciliation finished in 1s, next run in 1h0m0s"
	wantEvents(t, say(t, ks, ready, nil), finished)
	wantEvents(t, say(t, ks, ready, nil))
	wantEvents(t, say(t, ks, ready, func(p *pass) { p.artifact.Revision = "main@sha1:def" }), finished)
	wantEvents(t, say(t, ks, ready, func(p *pass) { p.changed, p.artifact.Revision = true, "main@sha1:def" }), finished)
	wantEvents(t, say(t, ks, failed, nil), "Warning BuildFailed: kustomize build failed")
	wantEvents(t, say(t, ks, failed, nil))
	asked := func(p *pass) { p.asked = true } // who asks gets an answer, be it the same
	wantEvents(t, say(t, ks, failed, asked), "Warning BuildFailed: kustomize build failed")
	other := failed
	other.message = "kustomize build failed otherwise"
	wantEvents(t, say(t, ks, other, nil), "Warning BuildFailed: kustomize build failed otherwise")
	quiet := failed
	quiet.quiet = true
	wantEvents(t, say(t, ks, quiet, nil))
	wantEvents(t, say(t, ks, outcomes["stalled"].out, nil), "Warning FieldNotSupported: spec.decryption: not supported")
	wantEvents(t, say(t, ks, outcomes["progressing"].out, nil))
}

// Waiting is told when it begins, and not every few seconds again.
func TestWaitingIsToldOnce(t *testing.T) {
	ks := newKustomization()
	tell := func(p *pass) { p.event(normal, fluxmeta.DependencyNotReadyReason, "retrying in 30s") }
	wantEvents(t, say(t, ks, outcomes["waiting"].out, tell), "Normal DependencyNotReady: retrying in 30s")
	wantEvents(t, say(t, ks, outcomes["waiting"].out, tell))
}

// P137, P168: an event names the revision, and the one that it was built from.
func TestEventAnnotations(t *testing.T) {
	const prefix = "kustomize.toolkit.fluxcd.io/"
	p := passOn(newKustomization())
	if diff := cmp.Diff(map[string]string{prefix + "revision": "main@sha1:abc"}, p.annotations(false)); diff != "" {
		t.Error(diff)
	}
	p.artifact.Metadata = map[string]string{originKey: "v1.2.3"}
	want := map[string]string{prefix + "revision": "main@sha1:abc", prefix + "originRevision": "v1.2.3", prefix + "commit_status": "update"}
	if diff := cmp.Diff(want, p.annotations(true)); diff != "" {
		t.Error(diff)
	}
	p.artifact = nil
	if diff := cmp.Diff(map[string]string{}, p.annotations(false)); diff != "" {
		t.Error(diff)
	}
	// A deletion is about what was applied last.
	p.ks.DeletionTimestamp = deletedAt(p.now)
	p.ks.Status.LastAppliedRevision, p.ks.Status.LastAppliedOriginRevision = "main@sha1:old", "v1.2.2"
	if diff := cmp.Diff(map[string]string{prefix + "revision": "main@sha1:old", prefix + "originRevision": "v1.2.2"}, p.annotations(false)); diff != "" {
		t.Error(diff)
	}
}

// P186, P232: the log of an apply names each object with what was done to it, or, with the gate, the objects by that.
func TestChangeLog(t *testing.T) {
	changes := []string{"Namespace/shop created", "ConfigMap/shop/a configured", "ConfigMap/shop/b created"}
	if diff := cmp.Diff(any(map[string]string{"Namespace/shop": "created", "ConfigMap/shop/a": "configured", "ConfigMap/shop/b": "created"}), changeLog(changes, false)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(any(map[string][]string{"created": {"Namespace/shop", "ConfigMap/shop/b"}, "configured": {"ConfigMap/shop/a"}}), changeLog(changes, true)); diff != "" {
		t.Error(diff)
	}
}

func TestEventsAreBounded(t *testing.T) {
	r := &recorder{}
	p := passOn(newKustomization())
	p.Recorder = r
	p.event(warning, "X", strings.Repeat("x", 1<<20))
	p.send(t.Context())
	if len(r.events) != 1 || len(r.events[0]) > maxMessage+100 || len(p.events) != 0 {
		t.Errorf("%d events, the first of %d bytes", len(r.events), len(r.events[0]))
	}
}
