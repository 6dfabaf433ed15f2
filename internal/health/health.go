package health

import (
	"fmt"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Status is the state of an object. The words are those of kstatus, which Flux prints.
type Status string

// The states of an object.
const (
	// Current: the object is as its spec wants it.
	Current Status = Status(kstatus.CurrentStatus)
	// InProgress: its controller is on the way there.
	InProgress Status = Status(kstatus.InProgressStatus)
	// Failed: it will not get there without a change.
	Failed Status = Status(kstatus.FailedStatus)
	// Terminating: it is being deleted.
	Terminating Status = Status(kstatus.TerminatingStatus)
	// NotFound: it does not exist.
	NotFound Status = Status(kstatus.NotFoundStatus)
	// Unknown: it could not be read or understood. The zero Verdict means the same.
	Unknown Status = Status(kstatus.UnknownStatus)
)

// Verdict is the state of one object, and why.
type Verdict struct {
	// Status is the state.
	Status Status
	// Message explains it in a few words. It holds no times or durations, so it changes only with the object.
	Message string
	// Error says what kept the object from being judged. Flux adds it to the text about the object.
	Error string
}

// Options are the facts beside the object that a verdict may depend on.
type Options struct {
	// MinGeneration is the generation that the last write returned. An object that was read at an older one is a read
	// from before the write, and proves nothing.
	MinGeneration int64
	// ReportsStatus says that the kind's controller is expected to set a status, so that an object without one has not
	// been looked at yet. See ReportsStatus for custom resources.
	ReportsStatus bool
	// Unclaimed says that the object is a claim whose class binds it when its first pod is there, and that no pod asks for it.
	Unclaimed bool
	// Custom replaces the rules of the kind, for an object that is not on its way out; nil for none.
	Custom func(*unstructured.Unstructured) Verdict
	// Now is the time of the read. Without it a pod that can't be scheduled is never taken for failed.
	Now time.Time
}

// Of judges an object by itself.
func Of(u *unstructured.Unstructured) Verdict { return Judge(u, Options{}) }

// OfGeneration judges an object that was written at the generation minGeneration.
func OfGeneration(u *unstructured.Unstructured, minGeneration int64) Verdict {
	return Judge(u, Options{MinGeneration: minGeneration})
}

// Judge returns the verdict about an object. It never panics: what can't be understood is Unknown.
func Judge(u *unstructured.Unstructured, opts Options) (v Verdict) {
	if u == nil || u.Object == nil {
		return Verdict{Status: Unknown, Error: "no object"}
	}
	defer func() {
		// kstatus asserts types without a check in a few places.
		if r := recover(); r != nil {
			v = Verdict{Status: Unknown, Error: fmt.Sprintf("object is malformed: %v", r)}
		}
	}()
	if u.GetDeletionTimestamp() != nil {
		return Verdict{Status: Terminating, Message: "Resource scheduled for deletion"}
	}
	if u.GetGeneration() < opts.MinGeneration {
		return inProgress("%s was read at generation %d, but written at %d", u.GetKind(), u.GetGeneration(), opts.MinGeneration)
	}
	v, isLagging := lagging(u)
	if opts.Custom != nil && (!isLagging || v.Status != InProgress) {
		return opts.Custom(u)
	}
	if isLagging {
		return v
	}
	if rule, ok := rules[u.GroupVersionKind().GroupKind()]; ok {
		if v, ok := rule(u, opts); ok {
			return v
		}
	}
	if opts.ReportsStatus && isEmpty(u.Object["status"]) {
		return inProgress("%s has no status yet", u.GetKind())
	}
	return compute(u)
}

// lagging says that the status is about another generation than the object's. kstatus has the same rule; it stands
// here so that the rules by kind, which come before kstatus, may rely on it.
func lagging(u *unstructured.Unstructured) (Verdict, bool) {
	observed, found, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	if err != nil {
		return Verdict{Status: Unknown, Error: err.Error()}, true
	}
	if generation := u.GetGeneration(); found && generation != 0 && observed != generation {
		return inProgress("%s generation is %d, but latest observed generation is %d", u.GetKind(), generation, observed), true
	}
	return Verdict{}, false
}

// compute is the verdict of kstatus.
func compute(u *unstructured.Unstructured) Verdict {
	res, err := kstatus.Compute(u)
	if err != nil {
		return Verdict{Status: Unknown, Error: err.Error()}
	}
	return Verdict{Status: Status(res.Status), Message: res.Message}
}

// Absent is the verdict about an object that a working API said does not exist. A Job with ttlSecondsAfterFinished is
// deleted once it has ended, so its absence counts as success, as in Flux.
func Absent(desired *unstructured.Unstructured) Verdict {
	if desired != nil && desired.GroupVersionKind().GroupKind() == job {
		if _, found, _ := unstructured.NestedFieldNoCopy(desired.Object, "spec", "ttlSecondsAfterFinished"); found {
			return Verdict{Status: Current, Message: "Job is gone and has a time to live: taken for finished"}
		}
	}
	return Verdict{Status: NotFound, Message: "Resource not found"}
}

// workloads are the built-in kinds that run something.
var workloads = map[schema.GroupKind]bool{
	pod: true, deployment: true, replicaSet: true, statefulSet: true, daemonSet: true, job: true,
}

// IsWorkload tells whether the object is one whose health stands for a revision when its Kustomization sets neither wait
// nor healthChecks. Custom resources are none of these: what their health means is for their author to say.
func IsWorkload(id object.ID) bool { return workloads[id.GroupKind()] }

// ReportsStatus tells whether the CustomResourceDefinition promises a status in the given version: its schema has
// status.conditions or status.observedGeneration. Objects of such a kind are in progress until a status appears, while
// those of a kind without are ready at once.
func ReportsStatus(crd *unstructured.Unstructured, version string) bool {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, item := range versions {
		v, ok := item.(map[string]any)
		if !ok || v["name"] != version {
			continue
		}
		fields, _, _ := unstructured.NestedMap(v, "schema", "openAPIV3Schema", "properties", "status", "properties")
		_, conditions := fields["conditions"]
		_, observed := fields["observedGeneration"]
		return conditions || observed
	}
	return false
}

func inProgress(format string, args ...any) Verdict {
	return Verdict{Status: InProgress, Message: fmt.Sprintf(format, args...)}
}

func current(format string, args ...any) Verdict {
	return Verdict{Status: Current, Message: fmt.Sprintf(format, args...)}
}

func isEmpty(v any) bool {
	m, ok := v.(map[string]any)
	return v == nil || ok && len(m) == 0
}
