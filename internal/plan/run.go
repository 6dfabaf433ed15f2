package plan

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Run is a Job of the build that has a time to live, so that Kubernetes deletes it some time after it ended.
type Run struct {
	ID object.ID
	// Digest of its manifest.
	Digest string
	// UID of the Job that was made of that manifest. What is known of the run is known of this Job; empty, and nothing is known,
	// when this process did not apply it.
	UID types.UID
	// Namespace is the UID of the Namespace that it is in; empty when there is none, or it may not be read. Then nothing is known of an
	// earlier run: one that is not repeated where it has to be is the greater harm.
	Namespace types.UID
	// Seen tells whether it is there; unknown when it could not be read.
	Seen Presence
	// Completed is when it was complete; zero when nobody saw that.
	Completed time.Time
	// Deleted is when its deletion was asked for, while it is there still.
	Deleted time.Time
	// Failed is what it says of its failure, or Kubernetes said once it was gone; empty when nothing was said.
	Failed string
	// Unheard is why what Kubernetes said of its end could not be read; empty when it could.
	Unheard string
	// TTL is how long it stays after that.
	TTL time.Duration
}

const (
	// ttlSlack is the time by which the clock that deletes Jobs may be ahead of ours.
	ttlSlack = 10 * time.Second
	// maxRuns bounds what is remembered. Of more than these the ones that expired first are run again.
	maxRuns = 100
)

// Runs returns what is remembered of the Jobs after a look at those of the build. One that is seen to be complete has run. One that
// is there and is not complete, or is deleted before its time, runs anew, so that what was remembered of it is void, and so is what is
// remembered of a Job that is not in the build, or that was gone before its time.
func Runs(was []v1.CompletedJob, jobs []Run, now time.Time) []v1.CompletedJob {
	var out []v1.CompletedJob
	for _, job := range jobs {
		remembered := find(was, job)
		switch {
		case job.Namespace == "":
		case !job.Completed.IsZero() && !job.deletedByHand():
			out = append(out, job.completed())
		case remembered == nil, job.Seen == Present, job.Seen == Absent && !isExpired(*remembered, now):
		default:
			out = append(out, *remembered)
		}
	}
	slices.SortFunc(out, func(a, b v1.CompletedJob) int {
		if c := b.Expires.Compare(a.Expires.Time); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out[:min(len(out), maxRuns)]
}

// IsOpen tells whether nobody knows how a Job ended that was applied and was not seen now: it is gone, or could not be read.
func (r Run) IsOpen() bool {
	return r.UID != "" && r.Seen != Present && r.Completed.IsZero() && r.Failed == ""
}

// completed is what is remembered of a Job that is complete.
func (r Run) completed() v1.CompletedJob {
	expires := metav1.NewTime(r.Completed.Add(r.TTL).Truncate(time.Second))
	return v1.CompletedJob{ID: r.ID.Inventory(), Digest: r.Digest, NamespaceUID: r.Namespace, Expires: expires}
}

// deletedByHand tells of a Job that is on its way out whether that began before its time was over.
func (r Run) deletedByHand() bool {
	return !r.Deleted.IsZero() && !isExpired(r.completed(), r.Deleted)
}

// IsRemembered tells whether something is known of an earlier run of the same manifest in the same Namespace.
func IsRemembered(was []v1.CompletedJob, job Run) bool { return find(was, job) != nil }

// HasRun tells whether a Job ran and was then removed by its time to live, if it is not there: the same manifest is not run
// again. Before its time is over, a Job that is gone was deleted by hand.
func HasRun(was []v1.CompletedJob, job Run, now time.Time) bool {
	remembered := find(was, job)
	return remembered != nil && isExpired(*remembered, now)
}

func isExpired(j v1.CompletedJob, now time.Time) bool { return !now.Before(j.Expires.Add(-ttlSlack)) }

func find(was []v1.CompletedJob, job Run) *v1.CompletedJob {
	for i := range was {
		if isOf(was[i], job) && job.Namespace != "" && was[i].NamespaceUID == job.Namespace {
			return &was[i]
		}
	}
	return nil
}

// IsNamed tells whether something is remembered of the manifest of a Job, wherever that ran.
func IsNamed(was []v1.CompletedJob, job Run) bool {
	return slices.ContainsFunc(was, func(remembered v1.CompletedJob) bool { return isOf(remembered, job) })
}

// isOf tells whether what is remembered is about the manifest of a Job.
func isOf(remembered v1.CompletedJob, job Run) bool {
	return remembered.ID == job.ID.Inventory() && remembered.Digest == job.Digest
}

// Remembering adds what was remembered of Jobs that are not in the build: while an older revision runs, those of the newer one
// have run all the same. One of the same name and another manifest is another Job.
func Remembering(now, was []v1.CompletedJob, jobs []Run) []v1.CompletedJob {
	out := slices.Clone(now)
	for _, remembered := range was {
		if !slices.ContainsFunc(jobs, func(job Run) bool { return isOf(remembered, job) }) {
			out = append(out, remembered)
		}
	}
	return out[:min(len(out), maxRuns)]
}
