package simulation

import (
	"encoding/base64"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/testkit/modelcluster"
)

// recovery is what is known about rollbacks, by docs/guide/rollback.md.
type recovery struct {
	// edited are objects whose content a person made or changed.
	edited map[types.UID]bool
	// taken is the step at which a Kustomization took an object over that was there, and was not its own.
	taken map[types.UID]int64
	// faultEnded is the last step at which a pod ceased to have a fault that a revision is to blame for.
	faultEnded int64
}

func newRecovery() recovery {
	return recovery{edited: map[types.UID]bool{}, taken: map[types.UID]int64{}}
}

// noteRecovery keeps what a write says about rollbacks.
func (w *world) noteRecovery(k *worker, c modelcluster.Change) {
	r := &w.truth.recovery
	if c.Before == nil {
		r.edited[c.After.GetUID()] = c.By == "someone" // what they wrote beside our fields stays
		return
	}
	if isAtFault(c.Before) && (c.After == nil || !isAtFault(c.After)) {
		r.faultEnded = w.step
	}
	switch {
	case c.After == nil:
	case k == nil && (c.By == "someone" || c.By == "autoscaler"):
		if !reflect.DeepEqual(contentOf(c.Before), contentOf(c.After)) {
			r.edited[c.After.GetUID()] = true
		}
	case k != nil && ownerOf(c.Before) != ownerOf(c.After):
		r.taken[c.After.GetUID()] = w.step
	}
}

// contentOf is what an object says beside its metadata and status.
func contentOf(u *unstructured.Unstructured) map[string]any {
	content := maps.Clone(u.Object)
	delete(content, "metadata")
	delete(content, "status")
	if text, ok := content["stringData"].(map[string]any); ok { // as it is stored
		data := map[string]any{}
		for key, value := range text {
			data[key] = base64.StdEncoding.EncodeToString([]byte(fmt.Sprint(value)))
		}
		delete(content, "stringData")
		content["data"] = data
	}
	content, _ = filled(content).(map[string]any)
	return content
}

// filled is a value without what says nothing: a program that reads objects into types of its own writes empty fields.
func filled(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, field := range value {
			if field = filled(field); field != nil {
				out[key] = field
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		out := make([]any, 0, len(value))
		for _, item := range value {
			out = append(out, filled(item))
		}
		return out
	case string:
		if value == "" {
			return nil
		}
	}
	return value
}

// isAtFault tells whether a pod or a Job shows a fault that its revision is to blame for.
func isAtFault(u *unstructured.Unstructured) bool {
	switch u.GetKind() {
	case "Job":
		return hasCondition(u, "Failed")
	case "Pod":
	default:
		return false
	}
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "containerStatuses")
	for _, item := range list {
		status, _ := item.(map[string]any)
		reason, _, _ := unstructured.NestedString(status, "state", "waiting", "reason")
		if reason != "" && reason != "ErrImagePull" {
			return true
		}
	}
	return false
}

// isRevision tells whether an object is a Secret that holds a stored revision.
func isRevision(u *unstructured.Unstructured) bool {
	return u != nil && u.GetKind() == "Secret" && u.Object["type"] == "holdfast.dev/revision"
}

// The label and the annotation that say whose revision it is, and which one.
const (
	revisionOf     = v1.AnnotationPrefix + "revision-of"
	revisionDigest = v1.AnnotationPrefix + "digest"
)

// checkStored: the Secrets of revisions are made beside their Kustomization, go with it, and hold what was healthy.
func (w *world) checkStored(k *worker, c modelcluster.Change) {
	if c.After == nil {
		return // judged before it took effect
	}
	ks := w.lately(k)
	r, known := w.byDigest[c.After.GetAnnotations()[revisionDigest]]
	refs := c.After.GetOwnerReferences()
	switch {
	case k.request.Verb != modelcluster.Create:
		w.fail("no foreign object", "the stored revision %s is changed by %s", c.ID(), k.request)
	case ks == nil || c.After.GetNamespace() != k.key.Namespace || len(refs) != 1 || refs[0].Name != k.key.Name:
		w.fail("no foreign object", "%s is written by %s, and belongs to %v", c.ID(), k.name, refs)
	case !known:
		w.fail("rollback", "%s holds what no source ever had", c.ID())
	default:
		w.stats.Stored++
		if why := w.unhealthy(r, 0); why != "" {
			w.fail("rollback", "%s is stored: %s", c.ID(), why)
		}
	}
}

// checkForgotten: the last healthy revision is not let go of while status has it.
func (w *world) checkForgotten(k *worker, obj *unstructured.Unstructured) {
	id, pre, digest := object.IDOf(obj), k.request.Preconditions, obj.GetAnnotations()[revisionDigest]
	if pre.UID == nil || pre.ResourceVersion == nil {
		w.fail("never deleted", "%s is deleted without preconditions", id)
	}
	own := false
	for _, ks := range w.since(k.key.Name, k.seen.started) {
		if ks == nil {
			return
		}
		own = own || obj.GetLabels()[revisionOf] == string(ks.UID)
		r := ks.Status.Rollout
		if own && (r == nil || r.LastHealthy == nil || r.LastHealthy.Digest != digest || !isListed(r, digest) || policyOf(ks).keep == 0) {
			return
		}
	}
	if !own {
		w.fail("never deleted", "%s is deleted for %s, which it does not belong to", id, k.key.Name)
		return
	}
	w.fail("rollback", "%s is deleted, and status has it as the last healthy revision", id)
}

func isListed(r *v1.RolloutStatus, digest string) bool {
	return slices.ContainsFunc(r.Stored, func(d v1.StoredRevision) bool { return d.Digest == digest })
}

// heldOn is the digest of the stored revision that a Kustomization is to run; empty for none.
func heldOn(ks *v1.Kustomization) string {
	switch r := ks.Status.Rollout; {
	case r == nil:
		return ""
	case r.Pin != nil:
		return r.Pin.Digest
	case r.Skipped != nil && r.LastHealthy != nil:
		return r.LastHealthy.Digest
	}
	return ""
}

// goal is what a Kustomization is to run: what the artifact renders, or the stored revision that it is held on.
func (w *world) goal(ks *v1.Kustomization, p publication) render {
	r := w.rendered(p.digest, ks.Spec.Path)
	stored, ok := w.byDigest[heldOn(ks)]
	if !ok {
		return r
	}
	stored.back, stored.fails = true, false
	if stored.empty == build.EmptyUnexplained {
		stored.empty = build.EmptyExplicit
	}
	return stored
}

// checkApplied: what is applied belongs to what status names as wanted, and that is not a revision that was given up.
func (w *world) checkApplied(k *worker, ks *v1.Kustomization, id object.ID) {
	r := ks.Status.Rollout
	if k.process.superseded || len(w.processes) > 1 {
		if !k.built.Has(id) && !w.isStoredPart(ks, id) {
			w.fail("no foreign object", "%s is applied, but not part of the build", id)
		}
		return
	}
	if r == nil || r.Wanted == nil || !w.byDigest[r.Wanted.Digest].ids.Has(id) {
		w.fail("no foreign object", "%s is applied, but not part of what is wanted", id)
		return
	}
	if s := r.Skipped; s != nil && r.Pin == nil && r.Wanted.Digest == s.Digest && r.WantedGeneration == s.Generation {
		w.fail("a rollback never loops", "%s is applied for %s, which was given up: %s", id, s.Revision, s.Message)
	}
	if digest := heldOn(ks); digest != "" {
		w.stats.BroughtBack++
		if r.Wanted.Digest != digest {
			w.fail("rollback", "%s is applied for %s, and %s is held on %s", id, r.Wanted.Digest, ks.Name, digest)
		}
	}
}

func (w *world) isStoredPart(ks *v1.Kustomization, id object.ID) bool {
	for _, version := range w.since(ks.Name, 0) {
		if version == nil || version.Status.Rollout == nil {
			continue
		}
		for _, d := range version.Status.Rollout.Stored {
			if w.byDigest[d.Digest].ids.Has(id) {
				return true
			}
		}
	}
	return false
}

// failedIn is the revision that was given up in a status; nil for none.
func failedIn(ks *v1.Kustomization) *v1.SkippedRevision {
	if r := ks.Status.Rollout; r != nil && r.Skipped != nil && r.Skipped.Reason == v1.SkippedFailed {
		return r.Skipped
	}
	return nil
}

// checkCourse: a revision is given up for a reason, and taken up again for one.
func (w *world) checkCourse(k *worker, before, after *v1.Kustomization) {
	was, is := failedIn(before), failedIn(after)
	same := was != nil && is != nil && was.Digest == is.Digest && was.Generation == is.Generation
	if was != nil && !same && !w.mayTryAgain(k, before, after, was) {
		w.fail("a rollback never loops", "%s takes %s up again, and neither it nor the spec changed, nor did a person say so", after.Name, was.Revision)
	}
	if is != nil && !same {
		w.stats.Rollbacks++
		if why := w.mayNotGiveUp(k, before, is); why != "" {
			w.fail("rollback", "%s gives up %s: %s", after.Name, is.Revision, why)
		}
	}
	if r := after.Status.Rollout; r != nil {
		for _, text := range slices.Concat(r.LeftAsIs, []string{messageOf(r.Skipped)}) {
			w.checkText("status", text)
		}
		for _, culprit := range r.Culprits {
			w.checkText("status", culprit.Message)
		}
	}
}

func messageOf(s *v1.SkippedRevision) string {
	if s == nil {
		return ""
	}
	return s.Message
}

// mayTryAgain tells whether a revision that was given up may be forgotten: the source has something else, the spec is another
// one, or a person said so.
func (w *world) mayTryAgain(k *worker, before, after *v1.Kustomization, was *v1.SkippedRevision) bool {
	if !reflect.DeepEqual(before.Status.Rollout.Heard, after.Status.Rollout.Heard) {
		return true
	}
	for _, ks := range w.since(k.key.Name, k.seen.started) {
		if ks == nil || ks.Generation != was.Generation {
			return true
		}
		for _, p := range w.sourceFor(k.key.Name).since(k.seen.started) {
			if w.rendered(p.digest, ks.Spec.Path).digest != was.Digest {
				return true
			}
		}
	}
	return false
}

// mayNotGiveUp says why a revision may not be rolled back; empty if it may.
func (w *world) mayNotGiveUp(k *worker, before *v1.Kustomization, is *v1.SkippedRevision) string {
	asked, anyFault := false, false
	for _, ks := range w.since(k.key.Name, k.seen.started) {
		if ks != nil {
			p := policyOf(ks)
			asked, anyFault = asked || p.rollback, anyFault || p.any
		}
	}
	r := before.Status.Rollout
	switch {
	case !asked:
		return "nobody asked for rollbacks"
	case r == nil || r.Wanted == nil || r.Wanted.Digest != is.Digest:
		return "it was not what was wanted"
	case r.LastHealthy == nil || r.LastHealthy.Digest == is.Digest || !isListed(r, r.LastHealthy.Digest):
		return "there is nothing to go back to"
	case r.Pin != nil || heldOn(before) != "":
		return "it is a rollback itself"
	case anyFault || w.truth.recovery.faultEnded >= k.seen.started:
		return ""
	}
	fault := false
	w.cluster.All(func(u *unstructured.Unstructured) { fault = fault || isAtFault(u) })
	if !fault {
		return "nothing is wrong with its own workloads"
	}
	return ""
}

// checkTakenOver: going back does not delete what the failed revision took over from others.
func (w *world) checkTakenOver(k *worker, obj *unstructured.Unstructured) {
	uid := obj.GetUID()
	for _, ks := range w.since(k.key.Name, k.seen.self) {
		if ks == nil {
			return
		}
		s := failedIn(ks)
		if s == nil || s.Began == nil || heldOn(ks) == "" || w.truth.recovery.taken[uid] == 0 ||
			!w.byDigest[s.Digest].ids.Has(object.IDOf(obj)) || !obj.GetCreationTimestamp().Time.Before(s.Began.Time) {
			return
		}
	}
	w.fail("never deleted", "%s is deleted for %s, and was taken over by the revision that failed", object.IDOf(obj), k.key.Name)
}

// restTime is longer than an interval and than any verification, and restSteps bound what is done in it.
const (
	restTime  = 16 * time.Minute
	restSteps = 4000
)

// checkRolledBack lets a world rest in which something may be rolled back. What runs then is what ran when that revision was
// healthy.
func (w *world) checkRolledBack() {
	back := func(name string) bool {
		ks := w.kustomization(name)
		return ks != nil && ks.DeletionTimestamp == nil && failedIn(ks) != nil
	}
	if !slices.ContainsFunc(w.names, back) {
		return
	}
	if w.rest(func() {}) {
		w.compareAll()
	}
}

func isRolledBack(ks *v1.Kustomization) bool {
	return failedIn(ks) != nil && slices.ContainsFunc(ks.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == meta.ReadyCondition && c.Reason == v1.ReasonRolledBack
	}) && ks.Status.Rollout.Phase == v1.PhaseHealthy
}

// compare looks at each managed object, field by field.
func (w *world) compare(ks *v1.Kustomization) {
	w.stats.Compared++
	for _, want := range w.byDigest[heldOn(ks)].objects() {
		id := object.IDOf(want)
		live := w.cluster.Get(id)
		left := slices.ContainsFunc(ks.Status.Rollout.LeftAsIs, func(s string) bool { return strings.HasPrefix(s, id.String()+":") })
		switch {
		case id.Kind == "Job", id.Kind == "CustomResourceDefinition", left:
		case live == nil:
			w.fail("rollback", "%s is rolled back, and %s is not there", ks.Name, id)
		case ownerOf(live) != fluxNamespace+"/"+ks.Name, w.truth.recovery.edited[live.GetUID()]:
		case !reflect.DeepEqual(contentOf(want), contentOf(live)):
			w.fail("rollback", "%s is rolled back, and %s is not as it was: %v, want %v", ks.Name, id, contentOf(live), contentOf(want))
		}
	}
}
