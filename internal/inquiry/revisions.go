package inquiry

import (
	"context"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/report"
	"github.com/holdfast-gitops/holdfast/internal/revision"
)

// History reads the rollouts of a Kustomization.
func (q *Inquirer) History(ctx context.Context, namespace, name string, now time.Time) (report.History, error) {
	ks, err := q.kustomization(ctx, namespace, name)
	if err != nil {
		return report.History{}, err
	}
	return report.HistoryOf(ks, now), nil
}

// Rollback reads what going back to a stored revision would change; to the last one when no revision is named. Without the right to
// read Secrets it does not say what changes.
func (q *Inquirer) Rollback(ctx context.Context, namespace, name, to string) (report.Rollback, error) {
	ks, err := q.kustomization(ctx, namespace, name)
	if err != nil {
		return report.Rollback{}, err
	}
	target, err := report.TargetOf(ks, to)
	if err != nil {
		return report.Rollback{}, notFoundf("%s/%s: %w", namespace, name, err)
	}
	answer := report.Rollback{Namespace: namespace, Name: name, To: target, Changes: []report.ObjectDiff{}}
	if w := ks.Status.Rollout.Wanted; w != nil {
		answer.From = *w
	}
	changes, err := q.compare(ctx, ks, answer.From, target)
	if err != nil {
		answer.Unseen = err.Error()
		return answer, nil
	}
	answer.Changes = changes
	return answer, nil
}

// Diff compares two stored revisions of a Kustomization. An empty second one is what runs.
func (q *Inquirer) Diff(ctx context.Context, namespace, name, from, to string) (report.RevisionDiff, error) {
	ks, err := q.kustomization(ctx, namespace, name)
	if err != nil {
		return report.RevisionDiff{}, err
	}
	a, err := report.FindRevision(ks, from)
	if err != nil {
		return report.RevisionDiff{}, notFoundf("%s/%s: %w", namespace, name, err)
	}
	b := v1.RevisionDigest{}
	switch running := ks.Status.Rollout.Running; {
	case to != "":
		if b, err = report.FindRevision(ks, to); err != nil {
			return report.RevisionDiff{}, notFoundf("%s/%s: %w", namespace, name, err)
		}
	case running == nil:
		return report.RevisionDiff{}, notFoundf("%s/%s: nothing runs yet: name a second revision", namespace, name)
	default:
		b = *running
	}
	answer := report.RevisionDiff{Namespace: namespace, Name: name, From: a, To: b}
	answer.Changes, err = q.compare(ctx, ks, a, b)
	if err != nil {
		return answer, &app.Error{Code: exitNotFound, Err: err}
	}
	return answer, nil
}

// compare reads two stored revisions and compares them.
func (q *Inquirer) compare(ctx context.Context, ks *v1.Kustomization, a, b v1.RevisionDigest) ([]report.ObjectDiff, error) {
	from, err := q.stored(ctx, ks, a)
	if err != nil {
		return nil, err
	}
	to, err := q.stored(ctx, ks, b)
	if err != nil {
		return nil, err
	}
	return report.DiffOf(from.Objects, to.Objects), nil
}

func (q *Inquirer) stored(ctx context.Context, ks *v1.Kustomization, d v1.RevisionDigest) (revision.Revision, error) {
	if !plan.IsStored(*ks.Status.Rollout, d.Digest) {
		return revision.Revision{}, fmt.Errorf("%s is not stored: only healthy revisions are, and as many as keepRevisions says", d.Revision)
	}
	r, err := (&revision.Store{Client: q.client}).Load(ctx, ks, plan.StoredAs(*ks.Status.Rollout, d.Digest))
	if err != nil {
		return r, fmt.Errorf("read %s: %w", d.Revision, err)
	}
	return r, nil
}

// The exit codes of a wait.
const (
	exitFailed     = 2
	exitRolledBack = 3
	exitTimeRanOut = 4
)

// Await looks once a second until a command was taken up and its outcome is decided. The error has the exit code of the outcome;
// nil for a healthy one.
func (q *Inquirer) Await(ctx context.Context, namespace, name string, heard func(*v1.Kustomization) bool) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		ks, err := q.kustomization(ctx, namespace, name)
		switch {
		case ctx.Err() != nil:
			return &app.Error{Code: exitTimeRanOut, Err: fmt.Errorf("%s/%s is not decided yet, and the time ran out: see `holdfast why %s -n %s`", namespace, name, name, namespace)}
		case err != nil:
			return err
		}
		if heard(ks) {
			if done, err := decided(ks); done {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// decided tells whether a Kustomization is not on its way any more, and how it ended.
func decided(ks *v1.Kustomization) (bool, error) {
	code := exitFailed
	switch report.OutcomeOf(ks) {
	case "":
		return false, nil
	case report.OutcomeHealthy:
		return true, nil
	case report.OutcomeRolledBack:
		code = exitRolledBack
	default:
		// It failed.
	}
	ready := apimeta.FindStatusCondition(ks.Status.Conditions, fluxmeta.ReadyCondition)
	return true, &app.Error{Code: code, Err: fmt.Errorf("%s/%s: %s: %s", ks.Namespace, ks.Name, ready.Reason, ready.Message)}
}
