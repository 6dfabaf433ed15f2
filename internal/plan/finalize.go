package plan

import (
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Farewell says whether a Kustomization that is being deleted may go.
type Farewell struct {
	// Blocking are the objects that it still has to wait for.
	Blocking []Retention
	// Left are the objects that stay on the cluster when it goes.
	Left []Retention
	// TimedOut is true when a wait for termination was given up.
	TimedOut bool
}

// MayGo tells whether nothing has to be waited for.
func (f Farewell) MayGo(p Plan) bool { return len(f.Blocking) == 0 && len(p.Delete) == 0 }

// Finalize decides which of the retained objects keep a Kustomization from going, at the deletion time and with the
// timeout of its spec. Deletions that were accepted need no further care, unless the deletion policy waits for them, or
// their finalizers may need what this Kustomization depends on, which goes when it has gone itself: so custom resources and
// child Kustomizations are waited for until the timeout. What
// others still use, or what needs others to be gone, is waited for until the timeout, and then left on the cluster rather
// than taken from under its users. What could not be read or deleted is waited for without end: giving up would orphan it.
func Finalize(f Facts, p Plan, deletedAt time.Time, waitForTermination bool) Farewell {
	timedOut := !f.Now.Before(deletedAt.Add(f.Policy.Timeout))
	leaving := f.leaving()
	var out Farewell
	for _, r := range p.Retain {
		onItsWay := r.Reason == v1.RetainedTerminating && leaving.Has(r.ID)
		switch {
		case f.Owner.is(r.ID):
			// It is the one that goes: waiting for it would be waiting for ever.
		case onItsWay && !waitForTermination && !waveOf(r.ID).isAwaited():
			// Accepted; the API server finishes it without us.
		case onItsWay && timedOut:
			out.TimedOut = waitForTermination
			out.Left = append(out.Left, r)
		case staysForGood(f.Owner, r), timedOut && staysForOthers[r.Reason]:
			out.Left = append(out.Left, r)
		default:
			out.Blocking = append(out.Blocking, r)
		}
	}
	return out
}

// leaving are the stale objects whose deletion was accepted and that are not gone yet.
func (f Facts) leaving() object.Set {
	leaving := object.Set{}
	for _, s := range f.Stale {
		if s.Seen.Presence == Present && !s.Seen.DeletedAt.IsZero() {
			leaving[s.ID] = struct{}{}
		}
	}
	return leaving
}

// staysForGood tells whether an object is kept by a word of a person, which no waiting changes.
func staysForGood(o Owner, r Retention) bool {
	return r.Released || r.Reason == v1.RetainedPruneDisabled || r.Reason == v1.RetainedAwaitingConfirmation ||
		(r.Reason == v1.RetainedProtected && isSystemNamespace(o, r.ID))
}

// staysForOthers are the reasons that others have to keep an object: worth a wait, but not one without end.
var staysForOthers = map[v1.RetentionReason]bool{
	v1.RetainedInUse:           true,
	v1.RetainedRevisionHistory: true,
	v1.RetainedProtected:       true,
	v1.RetainedMovedElsewhere:  true,
}
