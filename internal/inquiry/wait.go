package inquiry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// exitCannotHappen is the exit code of a wait for something that can't happen.
const exitCannotHappen = 5

// Wait says which Kustomizations a wait is about, and for what.
type Wait struct {
	// Commit as a person gives it: whole, or its beginning.
	Commit string
	// Contains tells whether a revision has the commit.
	Contains report.Contains
	// OrNewer takes any revision for one that has the commit that nobody had tried when the wait began.
	OrNewer bool
	// Namespace to look in; all when empty. Names are those in it; all when there are none.
	Namespace string
	Names     []client.ObjectKey
	// Source as namespace/name: only those that follow it; Labels: only those that have them.
	Source string
	Labels labels.Selector
}

// AwaitCommit looks every second until every Kustomization that is meant has decided about a commit, and tells what changed. The error
// has the exit code of the worst outcome.
func (q *Inquirer) AwaitCommit(ctx context.Context, w Wait, tell func(report.WaitKustomization) error) (report.WaitLook, error) {
	told := map[string]string{}
	var look report.WaitLook
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		all, err := q.kustomizations(ctx, w.within())
		switch {
		case ctx.Err() != nil:
			return look, &app.Error{Code: exitTimeRanOut, Err: fmt.Errorf("the time ran out with %d of %d not decided", look.Count(report.VerdictPending), len(look.Kustomizations))}
		case err != nil:
			return look, err
		}
		followers, err := w.meant(all)
		if err != nil {
			return look, err
		}
		w = w.begun(followers)
		look = report.WaitLookOf(w.Commit, followers, all, w.Contains)
		for _, changed := range look.Changed(told) {
			if err := tell(changed); err != nil {
				return look, err
			}
		}
		if look.Done() {
			return look, worst(look)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// begun makes a wait that takes newer revisions, too, one that knows which are not.
func (w Wait) begun(followers []v1.Kustomization) Wait {
	if !w.OrNewer {
		return w
	}
	old := map[string]bool{"": true}
	for i := range followers {
		old[followers[i].Status.LastAttemptedRevision] = true
	}
	known := w.Contains
	w.Contains = func(revision string) bool { return !old[revision] || known(revision) }
	w.OrNewer = false
	return w
}

// within is the namespace to list; all when the names are of several.
func (w Wait) within() string {
	for _, key := range w.Names {
		if key.Namespace != w.Namespace {
			return ""
		}
	}
	return w.Namespace
}

// meant are the Kustomizations that the wait is about.
func (w Wait) meant(all []v1.Kustomization) ([]v1.Kustomization, error) {
	var meant []v1.Kustomization
	for i := range all {
		ks := &all[i]
		key, _ := sourceOf(ks)
		named := len(w.Names) == 0 || slices.Contains(w.Names, client.ObjectKeyFromObject(ks))
		if named && (w.Source == "" || key.String() == w.Source) && (w.Labels == nil || w.Labels.Matches(labels.Set(ks.Labels))) {
			meant = append(meant, *ks)
		}
	}
	for _, key := range w.Names {
		if !slices.ContainsFunc(meant, func(ks v1.Kustomization) bool { return client.ObjectKeyFromObject(&ks) == key }) {
			return nil, notFoundf("no Kustomization %s in namespace %s that is meant: give another --namespace, or see `holdfast status -A`", key.Name, key.Namespace)
		}
	}
	if len(meant) == 0 {
		return nil, &app.Error{Code: exitCannotHappen, Err: fmt.Errorf("nothing to wait for%s: no Kustomization is meant; -A looks in all namespaces", in(w.Namespace))}
	}
	return meant, nil
}

// worst is the error for what a wait came to.
func worst(look report.WaitLook) error {
	verdict := func(v report.Outcome) int { return look.Count(report.Verdict(v)) }
	switch {
	case verdict(report.OutcomeRolledBack) > 0:
		return &app.Error{Code: exitRolledBack, Err: fmt.Errorf("%d rolled back", verdict(report.OutcomeRolledBack))}
	case verdict(report.OutcomeFailed)+look.Count(report.VerdictNotTried) > 0:
		return &app.Error{Code: exitFailed, Err: fmt.Errorf("%d failed, %d not tried", verdict(report.OutcomeFailed), look.Count(report.VerdictNotTried))}
	case verdict(report.OutcomeHealthy) == 0:
		return &app.Error{Code: exitCannotHappen, Err: fmt.Errorf("all of them are paused: end that first")}
	}
	return nil
}
