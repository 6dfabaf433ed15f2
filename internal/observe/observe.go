// Package observe reads the cluster for the planner: stale objects, their users, and the health of what was applied.
//
// Every answer is three-valued: there, not there, or unknown. Only a NotFound that names the object, from an API that
// works, means "not there"; everything else that went wrong is unknown, with the error as the reason. Nothing here
// writes, and nothing here decides.
package observe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/policy"
	"github.com/holdfast-gitops/holdfast/internal/scope"
)

// Observer reads the cluster with the rights of its client, and never from a cache.
type Observer struct {
	// Reader must read from the API server itself.
	Reader client.Reader
	// Mapper finds the API version that serves a kind.
	Mapper meta.RESTMapper
	// Discovery tells in full which kinds are served.
	Discovery discovery.DiscoveryInterface

	mu sync.Mutex
	// unserved has, for each kind that complete discovery lacked, since when that was seen.
	unserved map[schema.GroupKind]absence
	// last is the last list of all Kustomizations.
	last neighbours
	// round counts the lists that were declared void.
	round int
}

// absence is a time over which looks in a row found a kind unserved.
type absence struct{ since, last time.Time }

// leastMemory is the least time for which a look at an unserved kind is remembered, since looks may be as far apart for other
// reasons than the interval.
const leastMemory = time.Minute

// Stale reads one object of the inventory. The interval is the time over which its kind must stay unserved before the
// object counts as gone.
func (o *Observer) Stale(ctx context.Context, id object.ID, now time.Time, interval time.Duration) plan.Observation {
	mapping, err := o.Mapper.RESTMapping(id.GroupKind())
	if meta.IsNoMatchError(err) {
		return o.unservedKind(id.GroupKind(), now, interval)
	}
	if err != nil {
		return plan.Observation{Why: fmt.Sprintf("find the API of %s: %v", id.GroupKind(), err)}
	}
	if scope.IsNamespaced(mapping) && id.Namespace == "" {
		// Recorded before its manifest was refused. No object can have this identity.
		return plan.Observation{Presence: plan.Absent}
	}
	if problem := id.Unaddressable(); problem != "" {
		return plan.Observation{Why: problem}
	}
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(mapping.GroupVersionKind)
	err = o.Reader.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Name}, obj)
	switch {
	case IsAbsent(err):
		o.noteServed(id.GroupKind())
		return plan.Observation{Presence: plan.Absent}
	case meta.IsNoMatchError(err), isUnserved(err):
		return o.unservedKind(id.GroupKind(), now, interval)
	case err != nil:
		return plan.Observation{Why: unread(mapping.GroupVersionKind.GroupVersion(), err)}
	case obj.GetNamespace() != id.Namespace || obj.GetName() != id.Name || obj.GroupVersionKind().GroupKind() != id.GroupKind():
		// What is seen here proves what may be deleted; of another object it would prove the wrong thing.
		return plan.Observation{Why: fmt.Sprintf("asked for %s, the API server answered with %s",
			id, object.ID{Kind: obj.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()})}
	}
	o.noteServed(id.GroupKind())
	return observation(obj)
}

// unread says why an object of an API could not be read. An aggregated API that is down says no more than that, not even which
// it is.
func unread(gv schema.GroupVersion, err error) string {
	if apierrors.IsServiceUnavailable(err) && gv.Group != "" {
		return fmt.Sprintf("%s does not answer: %v; `kubectl get apiservice %s.%s` tells who serves it", gv, err, gv.Version, gv.Group)
	}
	return err.Error()
}

// noteServed ends the time over which a kind was unserved: the next time begins anew.
func (o *Observer) noteServed(gk schema.GroupKind) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.unserved, gk)
}

func observation(obj *metav1.PartialObjectMetadata) plan.Observation {
	seen := plan.Observation{
		Presence:        plan.Present,
		CreatedAt:       obj.GetCreationTimestamp().Time,
		UID:             string(obj.GetUID()),
		ResourceVersion: obj.GetResourceVersion(),
		OwnerName:       obj.GetLabels()[v1.OwnerNameLabel],
		OwnerNamespace:  obj.GetLabels()[v1.OwnerNamespaceLabel],
		DisabledBy:      PruneDisabledBy(obj),
		When:            policy.OnObject(obj.Kind, obj.GetAnnotations()[v1.AnnotationPrune]),
		Finalizers:      obj.GetFinalizers(),
	}
	if t := obj.GetDeletionTimestamp(); t != nil {
		seen.DeletedAt = t.Time
	}
	return seen
}

// PruneDisabledBy returns the control key and value in an object's labels or annotations that forbids to prune it, such
// as "prune: disabled"; empty if none does. Keys and values are those of Flux, values in any case.
func PruneDisabledBy(obj metav1.Object) string {
	return controlledBy(obj, control{"prune", "disabled"}, control{"reconcile", "disabled"}, control{"ssa", "ignore"})
}

// IsSkipped tells whether an object's metadata takes it out of apply and health check.
func IsSkipped(obj metav1.Object) bool {
	return controlledBy(obj, control{"reconcile", "disabled"}, control{"ssa", "ignore"}) != ""
}

// control is a control key, without Flux's prefix, and a value of it.
type control struct{ key, value string }

func controlledBy(obj metav1.Object, controls ...control) string {
	for _, c := range controls {
		for _, m := range []map[string]string{obj.GetAnnotations(), obj.GetLabels()} {
			if strings.EqualFold(m[v1.ControlPrefix+c.key], c.value) {
				return c.key + ": " + c.value
			}
		}
	}
	return ""
}

// IsAbsent tells whether an error says that the very object does not exist. A 404 for the whole resource, which an API
// server gives when a definition or an aggregated API is gone, names no object and is no proof.
func IsAbsent(err error) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	return !isUnserved(err)
}

// isUnserved tells whether a 404 speaks of the resource and not of an object.
func isUnserved(err error) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	details := status.Status().Details
	if details == nil || details.Name == "" {
		return true
	}
	for _, cause := range details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return true
		}
	}
	return false
}

// unservedKind decides about an object whose kind no API serves: it is gone with its definition, once complete
// discovery of its group lacked the kind twice, one interval apart. Discovery that fails for the group proves nothing; that
// of another group, such as a metrics API that is down, does not matter.
func (o *Observer) unservedKind(gk schema.GroupKind, now time.Time, interval time.Duration) plan.Observation {
	served, err := o.isServed(gk)
	switch {
	case err != nil:
		return plan.Observation{Why: fmt.Sprintf("list the kinds that the API server serves: %v", err)}
	case served:
		o.noteServed(gk)
		return plan.Observation{Why: fmt.Sprintf("the API of %s was not found a moment ago; it is read again", gk)}
	}
	if since, again := o.noteUnserved(gk, now, interval); !again || now.Sub(since) < interval {
		return plan.Observation{Why: fmt.Sprintf("no API serves %s; if that stays so for %s it counts as gone", gk, interval)}
	}
	return plan.Observation{Presence: plan.Absent}
}

// noteUnserved returns since when looks in a row found the kind unserved, and whether this is not the first of them. When
// nobody looked for too long, the kind may have been served in between, and the time begins anew.
func (o *Observer) noteUnserved(gk schema.GroupKind, now time.Time, interval time.Duration) (since time.Time, again bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	was, seen := o.unserved[gk]
	again = seen && now.Sub(was.last) <= max(2*interval, leastMemory)
	if !again {
		was.since = now
	}
	if o.unserved == nil {
		o.unserved = map[schema.GroupKind]absence{}
	}
	o.unserved[gk] = absence{since: was.since, last: now}
	return was.since, again
}

func (o *Observer) isServed(gk schema.GroupKind) (bool, error) {
	_, lists, err := o.Discovery.ServerGroupsAndResources()
	if err != nil && !failedElsewhere(err, gk.Group) {
		return false, err
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return false, err
		}
		for _, r := range list.APIResources {
			if gv.Group == gk.Group && r.Kind == gk.Kind {
				return true, nil
			}
		}
	}
	return false, nil
}

// failedElsewhere tells whether discovery failed for other groups only.
func failedElsewhere(err error, group string) bool {
	var partial *discovery.ErrGroupDiscoveryFailed
	if !errors.As(err, &partial) {
		return false
	}
	for gv := range partial.Groups {
		if gv.Group == group {
			return false
		}
	}
	return true
}
