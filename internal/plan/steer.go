package plan

import (
	"slices"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// The words of a pin about what ends it; anything else is a time.
const (
	UntilNext     = "next"
	UntilReleased = "released"
)

// Said are the commands of a person about revisions, as the annotations have them; empty for none. Each value counts once.
type Said struct {
	Rollback, Release, Retry string
	// Request is what Rollback asks for; nil when it can't be understood.
	Request *v1.RollbackRequest
}

// Course is what a pass brings to the cluster: the build of the source, or a stored revision.
type Course struct {
	// Back is true when it is a stored revision, To.
	Back bool
	To   v1.RevisionDigest
	// Again is true when a person asked to try the wanted revision once more.
	Again bool
	// Released says what ended, for the event: "the pin" or "the skip"; empty for nothing.
	Released string
	// Refused says why a command was not followed; empty when it was.
	Refused string
}

// Steer decides between the build that the source wants and a stored revision. The digest of want is empty where it could not
// be built.
//
// A person's pin goes before everything else, until it ends. A revision that failed and was rolled back is skipped as long as
// the source renders the same objects with the same spec: a new commit that changes nothing of this Kustomization, or a
// request to reconcile, is no reason to break it again.
func Steer(r v1.RolloutStatus, want Want, said Said, now time.Time) (v1.RolloutStatus, Course) {
	r = *r.DeepCopy()
	var c Course
	r, c = obey(r, want, said, now)
	if r.Pin != nil && pinEnds(r, want, now) {
		r.Pin, r.Skipped = nil, nil
		c.Released = "the pin"
	}
	switch {
	case r.Pin != nil:
		r.Skipped = skip(r.Skipped, want, now)
		c.Back, c.To = true, r.Pin.RevisionDigest
	case r.Skipped != nil && r.LastHealthy != nil && r.Skipped.Digest == want.Digest && r.Skipped.Generation == want.Generation:
		r.Skipped.Revision = want.Revision
		c.Back, c.To = true, *r.LastHealthy
	case r.Skipped != nil && want.Digest != "":
		r.Skipped = nil
		r.LeftAsIs = nil
	}
	return r, c
}

// obey takes up the commands that were not taken up yet.
func obey(r v1.RolloutStatus, want Want, said Said, now time.Time) (v1.RolloutStatus, Course) {
	var c Course
	heard := v1.Heard{}
	if r.Heard != nil {
		heard = *r.Heard
	}
	if said.Release != "" && said.Release != heard.Release {
		r, c.Released = letGo(r)
		heard.Release = said.Release
	}
	if said.Retry != "" && said.Retry != heard.Retry {
		c.Again = true
		if r.Skipped != nil && r.Skipped.Reason == v1.SkippedFailed {
			r.Skipped = nil
		}
		heard.Retry = said.Retry
	}
	if said.Rollback != "" && said.Rollback != heard.Rollback {
		r, c.Refused = pinTo(r, want, said.Request, now)
		heard.Rollback = said.Rollback
	}
	if heard != (v1.Heard{}) {
		r.Heard = &heard
	}
	return r, c
}

// letGo ends what keeps the source's revision away, and says what that was.
func letGo(r v1.RolloutStatus) (v1.RolloutStatus, string) {
	ended := ""
	switch {
	case r.Pin != nil:
		ended = "the pin"
	case r.Skipped != nil:
		ended = "the skip"
	}
	r.Pin, r.Skipped = nil, nil
	return r, ended
}

// pinTo pins to a stored revision, or says why not.
func pinTo(r v1.RolloutStatus, want Want, request *v1.RollbackRequest, now time.Time) (v1.RolloutStatus, string) {
	if request == nil {
		return r, "the annotation " + v1.AnnotationRollback + " can't be understood: use `holdfast rollback`"
	}
	i := slices.IndexFunc(r.Stored, func(d v1.StoredRevision) bool { return d.Digest == request.To })
	if i < 0 {
		return r, "no stored revision has the digest " + request.To + ": see `holdfast history`"
	}
	if _, err := time.Parse(time.RFC3339, request.Until); err != nil && request.Until != UntilNext && request.Until != UntilReleased {
		return r, "until is " + request.Until + ": want next, released or a time such as 2026-01-31T12:00:00Z"
	}
	to := r.Stored[i].RevisionDigest
	to.At = stamp(now)
	r.Pin = &v1.Pin{RevisionDigest: to, Until: request.Until, By: request.By, Reason: request.Reason}
	r.Skipped = skip(nil, want, now)
	if r.Wanted != nil && r.Wanted.Digest == want.Digest {
		r.Skipped.Began = r.Began // it was applied, and what it made is younger
	}
	return r, ""
}

// pinEnds tells whether a pin came to its end.
func pinEnds(r v1.RolloutStatus, want Want, now time.Time) bool {
	if r.Pin.Until == UntilNext {
		return r.Skipped != nil && want.Digest != "" && r.Skipped.Digest != want.Digest
	}
	end, err := time.Parse(time.RFC3339, r.Pin.Until)
	return err == nil && !now.Before(end)
}

// skip notes which revision is set aside by a pin. What is known of one that renders the same objects stays.
func skip(was *v1.SkippedRevision, want Want, now time.Time) *v1.SkippedRevision {
	if was != nil && (was.Digest == want.Digest || want.Digest == "") {
		if want.Digest != "" {
			was.Revision = want.Revision
		}
		return was
	}
	return &v1.SkippedRevision{
		RevisionDigest: v1.RevisionDigest{Revision: want.Revision, Digest: want.Digest, At: stamp(now)},
		Generation:     want.Generation, Reason: v1.SkippedPinned,
	}
}

// Recovery is what the policy says about a failed revision.
type Recovery struct {
	// Rollback is true for onFailure: Rollback.
	Rollback bool
	// Any is true for rollbackOn: Any.
	Any bool
}

// MayGoBack tells whether the rollout of a build that failed can be rolled back: there is a stored revision that was
// healthy, another one than that which failed. There is no rollback of a rollback.
func MayGoBack(r v1.RolloutStatus, rec Recovery) bool {
	return rec.Rollback && r.Phase == v1.PhaseHeld && r.Skipped == nil && r.Pin == nil && r.Wanted != nil &&
		r.LastHealthy != nil && r.LastHealthy.Digest != r.Wanted.Digest && IsStored(r, r.LastHealthy.Digest)
}

// IsStored tells whether a revision is stored, by its digest. Without a checksum it proves nothing, and is stored again.
func IsStored(r v1.RolloutStatus, digest string) bool { return StoredAs(r, digest).Checksum != "" }

// GoBack gives up the wanted revision: from the next pass on the last healthy one is brought back.
func GoBack(r v1.RolloutStatus, message string, now time.Time) v1.RolloutStatus {
	r = *r.DeepCopy()
	failed := *r.Wanted
	failed.At = stamp(now)
	r.Skipped = &v1.SkippedRevision{
		RevisionDigest: failed, Generation: r.WantedGeneration, Reason: v1.SkippedFailed, Message: message, Began: r.Began,
	}
	return r
}

// maxNew bounds the objects that status lists of a skipped revision.
const maxNew = 100

// SetAside notes the objects of the skipped revision that the one which runs has not. Other Kustomizations must not take
// for unwanted what the source wants here.
func SetAside(r v1.RolloutStatus, wanted, running object.Set) v1.RolloutStatus {
	if r.Skipped == nil {
		return r
	}
	var ids []string
	for id := range wanted {
		if !running.Has(id) {
			ids = append(ids, id.Inventory())
		}
	}
	slices.Sort(ids)
	r.Skipped.Compared = true
	r.Skipped.NewCount = int32(len(ids)) //nolint:gosec // an inventory never holds 2^31 objects
	r.Skipped.New = ids[:min(len(ids), maxNew)]
	return r
}

// StoredAs is what the status has of a stored revision. One that it has nothing of has no checksum, which nothing matches.
func StoredAs(r v1.RolloutStatus, digest string) v1.StoredRevision {
	for _, d := range r.Stored {
		if d.Digest == digest {
			return d
		}
	}
	return v1.StoredRevision{RevisionDigest: v1.RevisionDigest{Digest: digest}}
}

// Stored returns the revisions that stay stored, the newest first: the last healthy one and the one that is pinned or brought
// back in any case, and of the others as many as may be kept. What status has as such stays, too, until status has
// something else: whoever reads it after a crash goes by that.
func Stored(r, status v1.RolloutStatus, keep int) []v1.StoredRevision {
	if keep <= 0 && r.Pin == nil && r.Skipped == nil {
		return nil
	}
	needed := func(d v1.StoredRevision) bool { return needs(r, d.RevisionDigest) || needs(status, d.RevisionDigest) }
	room := keep
	for _, d := range r.Stored {
		if needed(d) {
			room--
		}
	}
	var out []v1.StoredRevision
	for _, d := range r.Stored {
		if needed(d) {
			out = append(out, d)
		} else if room > 0 {
			out = append(out, d)
			room--
		}
	}
	return out
}

// needs tells whether a rollout can't do without a stored revision.
func needs(r v1.RolloutStatus, d v1.RevisionDigest) bool {
	return r.LastHealthy != nil && d.Digest == r.LastHealthy.Digest || r.Pin != nil && d.Digest == r.Pin.Digest
}

// StoreNext puts the last healthy revision, of which this checksum was stored, first among those that are stored.
func StoreNext(r v1.RolloutStatus, checksum string) []v1.StoredRevision {
	out := []v1.StoredRevision{{RevisionDigest: *r.LastHealthy, Checksum: checksum}}
	for _, d := range r.Stored {
		if d.Digest != r.LastHealthy.Digest {
			out = append(out, d)
		}
	}
	return out
}
