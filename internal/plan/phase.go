package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// Want is the build that a rollout is about.
type Want struct {
	Revision, Digest string
	// Generation of the spec that it was built with.
	Generation int64
	// Requested is true when a person asked for a reconciliation that was not taken up yet.
	Requested bool
}

// Begin returns the rollout of a build, given the one before.
//
// A build that renders other objects, or a changed spec, interrupts the verification of the former one at once and starts
// its own. A build that renders the same objects interrupts nothing: it takes over the running verification, its
// deadline and its verdict; only the revision moves. That holds, too, when it had to wait first: in a monorepo every
// commit makes dependents wait. A request starts a verification over that is running or failed.
func Begin(prev v1.RolloutStatus, want Want, now time.Time) v1.RolloutStatus {
	same := prev.Wanted != nil && prev.Wanted.Digest == want.Digest && prev.WantedGeneration == want.Generation
	if same && prev.Phase == v1.PhaseWaiting {
		prev = enter(prev, phaseBeforeWait(prev), now)
	}
	next := *prev.DeepCopy()
	if next.Running != nil && next.Running.Digest == want.Digest {
		next.Running.Revision = want.Revision // what runs is what this revision renders, too
	}
	if same && goesOn(prev.Phase, want.Requested) {
		return takeOver(next, want)
	}
	next.Wanted = &v1.RevisionDigest{Revision: want.Revision, Digest: want.Digest}
	next.WantedGeneration = want.Generation
	next.Deadline = nil
	next.Culprits = nil
	next.HealthySince = nil
	if !same {
		next.Verified, next.Soaked = false, nil
	}
	if !same || next.Began == nil {
		next.Began = stamp(now)
	}
	return enter(next, v1.PhaseApplying, now)
}

// goesOn tells whether a rollout of the same build goes on from a phase. One that was refused or had to wait begins anew, and
// so does one without a good verdict when a person asks.
func goesOn(phase v1.Phase, requested bool) bool {
	switch phase {
	case v1.PhaseRefused, v1.PhaseWaiting:
		return false
	case v1.PhaseHealthy, v1.PhasePruning:
		return true
	default:
		return !requested
	}
}

// takeOver moves a rollout to a revision that renders the same objects.
func takeOver(r v1.RolloutStatus, want Want) v1.RolloutStatus {
	r.Wanted.Revision = want.Revision
	if r.Phase == v1.PhaseHealthy && r.Verified && r.LastHealthy != nil && r.LastHealthy.Digest == want.Digest {
		r.LastHealthy.Revision = want.Revision
	}
	return r
}

// phaseBeforeWait is the phase that a wait interrupted, as the traces of it tell: what runs, its verdict and its deadline.
// A failed verification is one whose deadline passed or whose next look fails it again.
func phaseBeforeWait(r v1.RolloutStatus) v1.Phase {
	switch {
	case r.Running == nil || r.Running.Digest != r.Wanted.Digest:
		return v1.PhaseWaiting
	case r.Deadline != nil:
		return v1.PhaseVerifying
	case r.Verified, r.HealthySince != nil:
		return v1.PhaseHealthy
	}
	return v1.PhaseWaiting
}

// Refuse returns the rollout of a revision that could not be built or applied; nothing of it was verified.
func Refuse(r v1.RolloutStatus, now time.Time) v1.RolloutStatus {
	return enter(r, v1.PhaseRefused, now)
}

// Wait returns the rollout of a revision that waits for its source or a dependency. What was verified before stays so.
func Wait(r v1.RolloutStatus, now time.Time) v1.RolloutStatus {
	return enter(r, v1.PhaseWaiting, now)
}

// Applied returns the rollout after every object of the build was applied. A verification that is running, or whose
// verdict is known, goes on as it was; else one begins, with its deadline.
func Applied(r v1.RolloutStatus, now time.Time, timeout time.Duration) v1.RolloutStatus {
	running := v1.RevisionDigest{Revision: r.Wanted.Revision, Digest: r.Wanted.Digest}
	if r.Running == nil || r.Running.Digest != running.Digest {
		running.At = stamp(now)
	} else {
		running.At = r.Running.At
	}
	r.Running = &running
	if r.Phase != v1.PhaseApplying {
		return r
	}
	deadline := metav1.NewTime(now.Add(timeout).Truncate(time.Second))
	r.Deadline = &deadline
	return enter(r, v1.PhaseVerifying, now)
}

// Verdict is what was seen of the health of the build.
type Verdict int

// The zero value is "in progress": health that nobody looked at is not health.
const (
	InProgress Verdict = iota
	Healthy
	Failed
)

// Terms are what a verdict has to satisfy.
type Terms struct {
	// Timeout is how long a verification may take.
	Timeout time.Duration
	// Soak is how long the build has to stay healthy before it counts as healthy.
	Soak time.Duration
	// Unwatched is true when nobody looked at the health for so long that it may have been bad in between.
	Unwatched bool
}

// Judge returns the rollout after a look at the health of the build. A failed one stays watched: it becomes healthy
// when it recovers. A healthy one that no longer is starts a verification of its own, so that one bad moment is no failure. One
// that has to stay healthy for longer than it had to before has yet to do so.
func Judge(r v1.RolloutStatus, v Verdict, now time.Time, terms Terms) v1.RolloutStatus {
	if SoakGrew(r, terms.Soak) {
		r.Verified, r.Soaked = false, nil
	}
	switch {
	case v == Healthy:
		r.Deadline = nil
		return soaked(enter(r, v1.PhaseHealthy, now), now, terms)
	case r.Phase == v1.PhaseHeld:
		return r
	case r.Phase == v1.PhaseHealthy:
		deadline := metav1.NewTime(now.Add(terms.Timeout).Truncate(time.Second))
		r.Deadline = &deadline
		r.HealthySince = nil
		r = enter(r, v1.PhaseVerifying, now)
	}
	if v == Failed || (r.Deadline != nil && !now.Before(r.Deadline.Time)) {
		return enter(r, v1.PhaseHeld, now)
	}
	return r
}

// soaked lets a healthy build count as healthy once it stayed so for the time that is asked for, without a break that was
// seen, or that could have been missed. One that counted before goes on to count.
func soaked(r v1.RolloutStatus, now time.Time, terms Terms) v1.RolloutStatus {
	if !r.Verified && terms.Soak > 0 {
		if r.HealthySince == nil || terms.Unwatched {
			r.HealthySince = stamp(now.Add(time.Second - 1)) // rounded up: the time is not to be shorter than what was asked for
		}
		if now.Before(SoakEnd(r, terms.Soak)) {
			return r
		}
	}
	r.HealthySince = nil
	healthy := v1.RevisionDigest{Revision: r.Wanted.Revision, Digest: r.Wanted.Digest, At: stamp(now)}
	if r.Verified && r.LastHealthy != nil && r.LastHealthy.Digest == healthy.Digest {
		healthy.At = r.LastHealthy.At
	}
	r.LastHealthy = &healthy
	if !r.Verified && terms.Soak > 0 {
		r.Soaked = &metav1.Duration{Duration: terms.Soak}
	}
	r.Verified = true
	return r
}

// SoakGrew tells whether a build that counts as healthy would have to stay healthy for longer than it had to: what may be deleted
// depends on the policy of now, wherever it is written.
func SoakGrew(r v1.RolloutStatus, soak time.Duration) bool {
	had := time.Duration(0)
	if r.Soaked != nil {
		had = r.Soaked.Duration
	}
	return r.Verified && soak > had
}

// SoakEnd is when a build that is healthy counts as healthy, if it stays so; zero when it does already, or is not healthy.
func SoakEnd(r v1.RolloutStatus, soak time.Duration) time.Time {
	if r.HealthySince == nil || r.Phase != v1.PhaseHealthy {
		return time.Time{}
	}
	return r.HealthySince.Add(soak)
}

// enter sets the phase; the time of its beginning moves only when the phase does.
func enter(r v1.RolloutStatus, phase v1.Phase, now time.Time) v1.RolloutStatus {
	if r.Phase != phase || r.Since == nil {
		r.Phase = phase
		r.Since = stamp(now)
	}
	return r
}

// stamp cuts a time to the second, which is what the API stores.
func stamp(now time.Time) *metav1.Time {
	t := metav1.NewTime(now.Truncate(time.Second))
	return &t
}
