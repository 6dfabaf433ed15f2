package simulation

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast-gitops/holdfast/internal/testkit/modelcluster"
)

// fault is a kind of fault.
type fault string

// The faults of requests, and those of the world around them.
const (
	noFault        fault = ""
	timeoutBefore  fault = "timeout before effect"
	timeoutAfter   fault = "timeout after effect"
	conflict       fault = "conflict"
	forbidden      fault = "403"
	throttled      fault = "429"
	internalError  fault = "500"
	webhookDenial  fault = "webhook denial"
	expiredPage    fault = "expired page"
	partialGroups  fault = "partial discovery"
	brokenDownload fault = "download"
	crash          fault = "crash"
	crashAfter     fault = "crash after effect"
	handover       fault = "two replicas"
	clockJump      fault = "clock jump"
	sourceRewind   fault = "source rewind"
	quotedValue    fault = "refusal that quotes a Secret"
	lostWatch      fault = "lost watch"
)

// allFaults are the kinds that a run may have.
var allFaults = []fault{
	timeoutBefore, timeoutAfter, conflict, forbidden, throttled, internalError, webhookDenial, expiredPage, partialGroups,
	brokenDownload, crash, crashAfter, handover, clockJump, sourceRewind, lostWatch, quotedValue,
}

var errTimeout = errors.New("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")

// fateOf draws what becomes of a request. Most are simply served.
func (w *world) fateOf(k *worker) fate {
	r := k.request
	if r.Verb == modelcluster.Delete && w.denied[r.ID.Kind] && !w.calm {
		w.stats.Faults[webhookDenial]++
		return fate{fault: webhookDenial, before: apierrors.NewForbidden(resourceOf(r), r.ID.Name,
			errors.New(`admission webhook "deny.example.com" denied the request`+w.quoted(r)))}
	}
	if w.calm || w.rng.IntN(100) >= w.options.Rate || len(w.options.Faults) == 0 {
		return fate{}
	}
	f := w.fateBy(pick(w.rng, w.options.Faults), r)
	if f.fault != noFault && w.skips() {
		return fate{}
	}
	if f.fault != noFault {
		w.stats.Faults[f.fault]++
	}
	return f
}

// quoted is what a careless webhook says about a Secret.
func (w *world) quoted(r modelcluster.Request) string {
	if r.ID.Kind != "Secret" || !w.has(quotedValue) {
		return ""
	}
	return ": it has key: " + secretMark + "1"
}

// quoting is a refusal of a Secret that quotes a value, as API servers and webhooks make it.
func (w *world) quoting(r modelcluster.Request) error {
	if chance(w.rng, 2) {
		return apierrors.NewForbidden(resourceOf(r), r.ID.Name, errors.New(`admission webhook "deny.example.com" denied the request`+w.quoted(r)))
	}
	return apierrors.NewInvalid(schema.GroupKind{Kind: r.ID.Kind}, r.ID.Name,
		field.ErrorList{field.Invalid(field.NewPath("stringData").Key("key"), secretMark+"1", "must not be so")})
}

func resourceOf(r modelcluster.Request) schema.GroupResource {
	return schema.GroupResource{Group: r.ID.Group, Resource: r.ID.Kind}
}

// fateBy is the fate of a request by one kind of fault; none if the fault can't hit the request.
func (w *world) fateBy(kind fault, r modelcluster.Request) fate {
	f := fate{fault: kind}
	gr := resourceOf(r)
	if r.Verb == fetchVerb {
		if kind == brokenDownload {
			f.before = errTransient
			return f
		}
		return fate{}
	}
	switch kind {
	case timeoutBefore:
		f.before = errTimeout
	case timeoutAfter:
		f.after = errTimeout
	case crashAfter:
		f.crash = true
	case forbidden:
		f.before = apierrors.NewForbidden(gr, r.ID.Name, errors.New("RBAC: not allowed"))
	case throttled:
		f.before = apierrors.NewTooManyRequests("too many requests", 1)
	case internalError:
		f.before = apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	case conflict:
		if !r.Writes() {
			return fate{}
		}
		f.before = apierrors.NewConflict(gr, r.ID.Name, errors.New("the object has been modified"))
	case expiredPage:
		if !r.Continue {
			return fate{}
		}
		f.before = apierrors.NewResourceExpired("the provided continue parameter is too old")
	case quotedValue:
		if !r.Sends() || r.ID.Kind != "Secret" {
			return fate{}
		}
		f.before = w.quoting(r)
	case partialGroups:
		if r.Verb != modelcluster.Discover {
			return fate{}
		}
		f.before = &modelcluster.PartialFailure{Group: pick(w.rng, []string{"example.com", "apps", "metrics.k8s.io"})}
		if r.ID.Kind != "" {
			f.before = fmt.Errorf("unable to retrieve the complete list of server APIs: %s/v1: 503", r.ID.Group)
		}
	default:
		return fate{}
	}
	return f
}
