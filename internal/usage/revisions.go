package usage

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

const (
	// revisionHash labels a pod with the revision it was made from: with the ControllerRevision's name by the
	// StatefulSet controller, with the hash at its end by the DaemonSet controller (apps/v1 ControllerRevisionHashLabelKey).
	revisionHash = "controller-revision-hash"
	// revisionNumber is how the Deployment controller counts its ReplicaSets.
	revisionNumber = "deployment.kubernetes.io/revision"
)

// findRevisions marks the ControllerRevisions from which pods are made or made again: those that a StatefulSet's
// status names (a pod below the partition comes back at the current one, not at the template) and those that live
// pods carry in their label.
func (s *scene) findRevisions() []error {
	var problems []error
	known := s.listed(controllerRevision)
	for _, u := range s.live {
		var err error
		switch u.GroupVersionKind().GroupKind() {
		case statefulSet:
			err = s.markNamed(u, known)
		case pod:
			s.markCarried(u, known)
		}
		if err != nil {
			problems = append(problems, &MalformedError{ID: object.IDOf(u), Err: err})
		}
	}
	return problems
}

// markNamed marks the revisions in the status of a StatefulSet. One that is named and not there is an error: what its
// pods would come back with can't be told.
func (s *scene) markNamed(set *unstructured.Unstructured, known map[object.ID]bool) error {
	for _, field := range []string{"currentRevision", "updateRevision"} {
		name, err := path{"status", field}.text(set.Object)
		if err != nil {
			return err
		}
		if name == "" {
			continue
		}
		id := idIn(controllerRevision, set.GetNamespace(), name)
		if !known[id] {
			return fmt.Errorf("status.%s names a ControllerRevision that was not listed: %s", field, name)
		}
		s.revisions[id] = true
	}
	return nil
}

// markCarried marks the revision that a live pod was made from. A pod whose revision is gone is still a user by its own
// spec, so nothing is lost when none is found; a malformed pod is reported where pods are judged.
func (s *scene) markCarried(u *unstructured.Unstructured, known map[object.ID]bool) {
	hash := u.GetLabels()[revisionHash]
	if hash == "" {
		return
	}
	if ok, err := alive(u); !ok && err == nil {
		return
	}
	for _, name := range []string{hash, controllerOf(u).Name + "-" + hash} {
		if id := idIn(controllerRevision, u.GetNamespace(), name); known[id] {
			s.revisions[id] = true
		}
	}
}

// findPaused marks the newest ReplicaSet of every paused Deployment. A paused Deployment whose template was changed
// makes no ReplicaSet for it; scaling up, or restarting a pod, brings back the newest one that exists.
func (s *scene) findPaused() {
	paused := map[object.ID]bool{}
	for _, u := range s.live {
		if u.GroupVersionKind().GroupKind() == deployment {
			// Anything but a plain false counts as paused: the wrong guess keeps more.
			switch v, ok, err := unstructured.NestedBool(u.Object, "spec", "paused"); {
			case err != nil, ok && v:
				paused[object.IDOf(u)] = true
			}
		}
	}
	newest := map[object.ID]*unstructured.Unstructured{}
	for _, u := range s.live {
		if u.GroupVersionKind().GroupKind() != replicaSet || !paused[controllerOf(u)] {
			continue
		}
		if other := newest[controllerOf(u)]; other == nil || newer(u, other) {
			newest[controllerOf(u)] = u
		}
	}
	for _, u := range newest {
		s.newest[object.IDOf(u)] = true
	}
}

// newer compares two ReplicaSets of a Deployment by revision, then by age, then by name to be the same in any order.
func newer(a, b *unstructured.Unstructured) bool {
	if x, y := revisionOf(a), revisionOf(b); x != y {
		return x > y
	}
	if x, y := a.GetCreationTimestamp(), b.GetCreationTimestamp(); !x.Equal(&y) {
		return y.Before(&x)
	}
	return a.GetName() > b.GetName()
}

// revisionOf is 0 for a ReplicaSet that the Deployment controller has not numbered.
func revisionOf(u *unstructured.Unstructured) int64 {
	n, err := strconv.ParseInt(u.GetAnnotations()[revisionNumber], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// claimsOf returns the targets that a StatefulSet's claim templates stand for: the claim of pod i of set s made from
// template t is t-s-i. Every ordinal counts, also those above the replicas, since claims keep their data for the day the
// set is scaled up again. Source: the naming in apps/v1 StatefulSetSpec.volumeClaimTemplates.
func claimsOf(set *unstructured.Unstructured, targets object.Set) []object.ID {
	if set.GroupVersionKind().GroupKind() != statefulSet {
		return nil
	}
	var prefixes []string
	// Malformed templates are reported where the set's references are read.
	_ = parsePath("spec.volumeClaimTemplates[].metadata.name").names(set.Object, func(name string) {
		prefixes = append(prefixes, name+"-"+set.GetName()+"-")
	})
	var found []object.ID
	for id := range targets {
		if id.GroupKind() != (schema.GroupKind{Kind: claim.name}) || id.Namespace != set.GetNamespace() {
			continue
		}
		for _, prefix := range prefixes {
			if rest, ok := strings.CutPrefix(id.Name, prefix); ok && isOrdinal(rest) {
				found = append(found, id)
				break
			}
		}
	}
	return found
}

func isOrdinal(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// listed returns the identities of the live objects of a kind.
func (s *scene) listed(gk schema.GroupKind) map[object.ID]bool {
	ids := map[object.ID]bool{}
	for _, u := range s.live {
		if u.GroupVersionKind().GroupKind() == gk {
			ids[object.IDOf(u)] = true
		}
	}
	return ids
}

func idIn(gk schema.GroupKind, namespace, name string) object.ID {
	return object.ID{Group: gk.Group, Kind: gk.Kind, Namespace: namespace, Name: name}
}
