package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/policy"
	"github.com/holdfast-gitops/holdfast/internal/rival"
)

// Handback is the answer of `holdfast handback --check`: whether Flux may take over again.
type Handback struct {
	// Ready is true when Flux would delete nothing that is kept, and take nothing for what it is not.
	Ready bool `json:"ready"`
	// Findings have to be dealt with before.
	Findings []Finding `json:"findings"`
	// Deletes are the objects that Flux would delete at once, those that are on their way out among them.
	Deletes []KeptObject `json:"deletes"`
	// Unlisted is the number of those that status counts and does not list.
	Unlisted int32 `json:"unlisted,omitempty"`
	// Notes are what changes with Flux and loses nothing.
	Notes []string `json:"notes,omitempty"`
	// Steps are what to do, in order, when it is ready.
	Steps []string `json:"steps"`
	// MissingRights are what could not be read.
	MissingRights []string `json:"missingRights,omitempty"`
}

// HandbackFacts are what was read for the answer.
type HandbackFacts struct {
	Kustomizations []v1.Kustomization
	// Workloads are the installed controllers of Flux.
	Workloads  []Workload
	Definition DefinitionState
	// Own are the leases that holdfast holds, as namespace/name of the holder.
	Own []string
	// Revisions is the number of Secrets with stored revisions.
	Revisions int
	Missing   []string
}

// HandbackOf makes the answer.
func HandbackOf(f HandbackFacts) Handback {
	a := Handback{Findings: []Finding{}, Deletes: []KeptObject{}, MissingRights: f.Missing}
	for i := range f.Kustomizations {
		a.look(&f.Kustomizations[i])
	}
	a.Ready = len(a.Findings) == 0
	a.Steps = f.steps()
	if f.Revisions > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%s with stored revisions stay, with the values of the Secrets in them: delete those of the type "+
			"holdfast.dev/revision when they are no longer wanted", count(f.Revisions, "Secret")))
	}
	return a
}

// look adds what a Kustomization has against it.
func (a *Handback) look(ks *v1.Kustomization) {
	key, r := ks.Namespace+"/"+ks.Name, ks.Status.Rollout
	if ks.Spec.Rollout != nil {
		a.find(key, fmt.Sprintf("Kustomization %s has spec.rollout, which Flux's definition does not know: what is applied strictly is refused", key),
			"take spec.rollout out of its manifest in Git; the annotations holdfast.dev/... may stay")
	}
	if pause := policy.PauseOf(ks, time.Now()); pause != nil && !ks.Spec.Suspend {
		a.find(key, fmt.Sprintf("Kustomization %s is paused: %s. Flux does not know of that, and goes on at once", key, pause),
			"holdfast suspend "+ks.Name+" -n "+ks.Namespace+"   stops it for Flux, too",
			"or end the pause: holdfast release "+ks.Name+" -n "+ks.Namespace)
	}
	if r == nil {
		return
	}
	a.lookAtKept(ks)
	switch {
	case r.Pin != nil:
		a.find(key, fmt.Sprintf("Kustomization %s is pinned: Flux applies what Git says, at once", key), "holdfast release "+ks.Name+" -n "+ks.Namespace)
	case r.Skipped != nil:
		a.find(key, fmt.Sprintf("Kustomization %s was rolled back: Flux applies the failed revision again, at once", key), "push a fix, or revert the commit")
	case isOnTheWay(ks):
		a.find(key, fmt.Sprintf("Kustomization %s is on its way (%s): its inventory holds what the old revision needs, and Flux deletes that at once", key, r.Phase),
			"wait until `holdfast status` shows Healthy")
	}
}

// isOnTheWay tells whether a rollout is not done: the inventory holds the objects of two revisions then.
func isOnTheWay(ks *v1.Kustomization) bool {
	switch phaseOf(ks) {
	case v1.PhaseApplying, v1.PhaseVerifying, v1.PhasePruning, v1.PhaseHeld:
		return !ks.Spec.Suspend && ks.Spec.Prune // a pause does not count: Flux knows none
	case v1.PhaseHealthy, v1.PhaseRefused, v1.PhaseWaiting:
	}
	return false
}

// lookAtKept finds what Flux deletes with its next apply: whatever the inventory has and the build lacks.
func (a *Handback) lookAtKept(ks *v1.Kustomization) {
	key, r := ks.Namespace+"/"+ks.Name, ks.Status.Rollout
	if !ks.Spec.Prune && r.RetainedCount > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("Kustomization %s does not prune: Flux forgets %s that left the source, and leaves them on the cluster",
			key, count(int(r.RetainedCount), "object")))
		return
	}
	leaving, n := 0, int32(0)
	for _, kept := range r.Retained {
		switch kept.Reason {
		case v1.RetainedPruneDisabled: // by Flux as well
			continue
		case v1.RetainedTerminating:
			leaving++
		default:
			n++
		}
		a.Deletes = append(a.Deletes, KeptObject{Kustomization: key, RetainedObject: kept})
	}
	unlisted := max(0, r.RetainedCount-int32(len(r.Retained))) //nolint:gosec // status lists at most 500
	a.Unlisted += unlisted
	when := "at once"
	if ks.Spec.Suspend {
		when = "when it is resumed"
	}
	if leaving > 0 {
		// One of them may wait for another to be gone, and is not deleted yet.
		a.find(key, fmt.Sprintf("Kustomization %s is still deleting %s, in order: Flux deletes what is left of it %s, in any order", key, count(leaving, "object"), when),
			"wait until it is gone: `holdfast kept "+ks.Name+" -n "+ks.Namespace+"` says what it waits for")
	}
	if n += unlisted; n > 0 {
		a.find(key, fmt.Sprintf("Kustomization %s keeps %s that Flux deletes %s, in use or not", key, count(int(n), "object"), when),
			"holdfast kept "+ks.Name+" -n "+ks.Namespace+"   says what ends it; wait for that",
			"or keep an object for good: kubectl annotate KIND NAME kustomize.toolkit.fluxcd.io/prune=disabled")
	}
}

func (a *Handback) find(subject, message string, do ...string) {
	a.Findings = append(a.Findings, Finding{Subject: subject, Message: message, Do: do})
}

// steps are the way back, in order.
func (f HandbackFacts) steps() []string {
	var steps []string
	for _, own := range f.Own {
		namespace, _, _ := strings.Cut(own, "/")
		steps = append(steps, fmt.Sprintf("kubectl scale deployment holdfast -n %s --replicas=0", namespace))
	}
	if len(f.Own) == 0 {
		steps = append(steps, "end holdfast, if it still runs")
	}
	steps = append(steps, "take the patches of `holdfast takeover --check` out of Git, if they are there")
	started := false
	for _, w := range f.Workloads {
		if w.Controller == rival.KustomizeController && w.Stopped {
			steps = append(steps, fmt.Sprintf("kubectl scale %s %s -n %s --replicas=1", strings.ToLower(w.ID.Kind), w.ID.Name, w.ID.Namespace))
			started = true
		}
	}
	if !slices.ContainsFunc(f.Workloads, func(w Workload) bool { return w.Controller == rival.KustomizeController }) {
		steps = append(steps, "flux install, or flux bootstrap")
		started = true
	}
	if f.Definition == DefinitionOwn && started {
		steps = append(steps, "flux install puts Flux's own definition back, later; holdfast's is a superset, and Flux works with it")
	}
	return steps
}

// WriteText writes what would be lost first.
func (a Handback) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	if a.Ready {
		b.WriteString("Ready: Flux may take over again, and deletes nothing that is kept.\n")
	} else {
		fmt.Fprintf(&b, "Not ready: %s to deal with before Flux takes over again.\n", count(len(a.Findings), "thing"))
	}
	writeFindings(&b, a.Findings)
	if len(a.Deletes) > 0 {
		b.WriteString("\nWHAT FLUX WOULD DELETE\n")
		o.Namespaces = false
		t := newTable(&b, o, "KUSTOMIZATION", "OBJECT", "KEPT BECAUSE", "USED BY", "UNTIL")
		for _, k := range a.Deletes {
			t.row("", k.Kustomization, nameOf(k.ID), string(k.Reason), orDash(usedBy(k.RetainedObject, o)), o.why(untilOf(k.RetainedObject)))
		}
		t.end()
		if a.Unlisted > 0 {
			fmt.Fprintf(&b, "%d more than status lists.\n", a.Unlisted)
		}
	}
	for i, note := range a.Notes {
		if i == 0 {
			b.WriteString("\nNOTE\n")
		}
		fmt.Fprintf(&b, "  %s\n", note)
	}
	if a.Ready {
		b.WriteString("\nNEXT\n")
		for _, step := range a.Steps {
			fmt.Fprintf(&b, "  %s\n", step)
		}
	}
	writeMissing(&b, a.MissingRights)
	_, err := io.WriteString(w, b.String())
	return err
}
