package kustomization

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/target"
)

var config = object.ID{Kind: "ConfigMap", Namespace: "shop", Name: "old"}

// server answers for an API server that has one Kustomization, its source, and the ConfigMap of the inventory.
type server struct {
	ks     *v1.Kustomization
	source *sourcev1.GitRepository
	// lists counts the lists of Kustomizations.
	lists int
	// faults are errors by the kind of what is asked for, or by the verb of a write.
	faults map[string]error
	// stored are the patches of its status.
	stored []string
	// others are the other Kustomizations, and deleted the objects that were asked to go.
	others  []v1.Kustomization
	deleted []string
}

// passAgainst is a pass over a Kustomization whose inventory has one stale ConfigMap.
func passAgainst(ks *v1.Kustomization) (*pass, *server) {
	ks.UID, ks.ResourceVersion, ks.Spec.SourceRef = "uid", "7", fluxv1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: "app"}
	p := passOn(ks)
	s := &server{ks: ks.DeepCopy(), source: &sourcev1.GitRepository{}, faults: map[string]error{}}
	s.source.Status.Artifact = &fluxmeta.Artifact{Revision: p.artifact.Revision, Digest: p.artifact.Digest}
	c := interceptor.NewClient(nil, interceptor.Funcs{Get: s.get, List: s.list, Delete: s.delete, SubResourcePatch: s.patchStatus})
	mapper := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}})
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, apimeta.RESTScopeNamespace)
	observer := &observe.Observer{Reader: c, Mapper: mapper}
	p.Client, p.Reader, p.Siblings = c, c, observer
	p.use(&target.Target{Key: "own", Observer: observer, Users: observer, Executor: &execute.Executor{Client: c}, Mapper: mapper})
	p.inventory, p.built.Empty = inventory.Of(inventory.Entry{ID: config, Version: "v1"}), ""
	return p, s
}

func (s *server) get(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	switch obj := obj.(type) {
	case *v1.Kustomization:
		s.ks.DeepCopyInto(obj)
		return s.faults["Kustomization"]
	case *sourcev1.GitRepository:
		s.source.DeepCopyInto(obj)
		return s.faults["GitRepository"]
	case *metav1.PartialObjectMetadata:
		obj.Name, obj.Namespace = key.Name, key.Namespace
		obj.UID, obj.ResourceVersion = "object", "1"
		if obj.Kind == v1.KustomizationKind {
			obj.UID, obj.ResourceVersion = s.ks.UID, s.ks.ResourceVersion
		}
		obj.Labels = map[string]string{v1.OwnerNameLabel: s.ks.Name, v1.OwnerNamespaceLabel: s.ks.Namespace}
		return s.faults[obj.Kind]
	}
	return errors.New("nobody expected that")
}

func (s *server) list(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
	if all, ok := list.(*v1.KustomizationList); ok {
		s.lists++
		all.Items = s.others
	}
	return nil
}

func (s *server) delete(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.DeleteOption) error {
	s.deleted = append(s.deleted, obj.GetName())
	return s.faults["delete"]
}

func (s *server) patchStatus(_ context.Context, _ client.Client, _ string, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	text, err := patch.Data(obj)
	if err != nil {
		return err
	}
	s.stored = append(s.stored, string(text))
	return s.faults["status"]
}

// A build proves nothing any more once its Kustomization changed in any way that bears on deletion.
func TestFactsNoticeAChange(t *testing.T) {
	deleted := metav1.NewTime(now)
	for name, tt := range map[string]struct {
		change func(*v1.Kustomization)
		want   bool
	}{
		"nothing":            {func(*v1.Kustomization) {}, false},
		"another label":      {func(ks *v1.Kustomization) { ks.Labels = map[string]string{"a": "b"} }, false},
		"its spec":           {func(ks *v1.Kustomization) { ks.Generation++ }, true},
		"it is another one":  {func(ks *v1.Kustomization) { ks.UID = "anew" }, true},
		"it is deleted":      {func(ks *v1.Kustomization) { ks.DeletionTimestamp = &deleted }, true},
		"its policy, by key": {func(ks *v1.Kustomization) { ks.Annotations = map[string]string{v1.AnnotationRetain: "None"} }, true},
	} {
		p, s := passAgainst(newKustomization())
		tt.change(s.ks)
		facts, overtaken, err := p.facts(t.Context(), true)
		if err != nil || overtaken != tt.want {
			t.Errorf("%s: overtaken %t (%v), want %t", name, overtaken, err, tt.want)
		}
		if seen := facts.Stale[0].Seen.Presence == plan.Present; seen == tt.want {
			t.Errorf("%s: the object was looked at: %t", name, seen)
		}
	}
	for kind, fault := range map[string]error{"Kustomization": errors.New("timeout"), "GitRepository": errors.New("timeout")} {
		p, s := passAgainst(newKustomization())
		s.faults[kind] = fault
		if _, _, err := p.facts(t.Context(), true); !errors.Is(err, fault) {
			t.Errorf("%s can't be read: %v", kind, err)
		}
	}
}

// The newest artifact of the source is what it offers now. Another artifact of one revision is another one.
func TestNewest(t *testing.T) {
	p, s := passAgainst(newKustomization())
	for name, tt := range map[string]struct {
		offered *fluxmeta.Artifact
		want    string
	}{
		"the same":       {&fluxmeta.Artifact{Revision: "main@sha1:abc", Digest: "sha256:1"}, "main@sha1:abc"},
		"a newer one":    {&fluxmeta.Artifact{Revision: "main@sha1:def", Digest: "sha256:2"}, "main@sha1:def"},
		"other contents": {&fluxmeta.Artifact{Revision: "main@sha1:abc", Digest: "sha256:2"}, "main@sha1:abc as sha256:2"},
		"nothing":        {nil, ""},
	} {
		s.source.Status.Artifact = tt.offered
		facts, _, err := p.facts(t.Context(), true)
		if err != nil || facts.Build.Newest != tt.want {
			t.Errorf("%s: %q (%v), want %q", name, facts.Build.Newest, err, tt.want)
		}
	}
}

// The fence lets a process write only while the Kustomization is as it recorded it.
func TestFenceOfAPass(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*server)
		want   error
	}{
		"as it was":         {func(*server) {}, nil},
		"status was stored": {func(s *server) { s.ks.ResourceVersion = "8" }, errOvertaken},
		"made anew":         {func(s *server) { s.ks.UID = types.UID("anew") }, errOvertaken},
		"unread":            {func(s *server) { s.faults[v1.KustomizationKind] = errRefused }, errRefused},
	} {
		p, s := passAgainst(newKustomization())
		tt.change(s)
		if err := p.fence(t.Context()); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

var errRefused = errors.New("no")

// An inventory that could not be stored ends the pass before the first write.
func TestRecordThatIsLost(t *testing.T) {
	gr := schema.GroupResource{Group: v1.GroupVersion.Group, Resource: "kustomizations"}
	for name, fault := range map[string]error{"": nil, "conflict": apierrors.NewConflict(gr, "shop", errRefused),
		"gone": apierrors.NewNotFound(gr, "shop"), "timeout": context.DeadlineExceeded} {
		p, s := passAgainst(newKustomization())
		s.faults["status"] = fault
		out := p.record(t.Context())
		switch {
		case fault == nil && out != nil && !errors.Is(out.err, errStockCRD):
			t.Errorf("stored, and the pass ends with %+v", out)
		case fault != nil && (out == nil || out.err == nil):
			t.Errorf("%s: the pass goes on: %+v", name, out)
		}
	}
}

// What status remembers of each object is what the planner is told.
func TestFactsFromStatus(t *testing.T) {
	ks := newKustomization()
	at := metav1.NewTime(now)
	ks.Status.Rollout = &v1.RolloutStatus{RetainedCount: 1, Retained: []v1.RetainedObject{
		{ID: config.Inventory(), Reason: v1.RetainedAwaitingConfirmation, UID: "object", Since: &at}}}
	ask := func() plan.Stale {
		p, _ := passAgainst(ks.DeepCopy())
		return p.knownFacts(p.inventory.Entries()).Stale[0]
	}
	if s := ask(); s.Confirmed != "" || s.Lingering || s.WasPruneOff {
		t.Errorf("asked about: %+v", s)
	}
	ks.Annotations = map[string]string{v1.AnnotationConfirmPrune: plan.Digest(ks.Status.Rollout.Retained)}
	if s := ask(); s.Confirmed != "object" {
		t.Errorf("confirmed: %+v", s)
	}
	ks.Status.Rollout.Retained[0].Reason = v1.RetainedInUse
	if s := ask(); s.Confirmed != "" || !s.Lingering {
		t.Errorf("in use: %+v", s)
	}
	ks.Status.Rollout.Retained[0].Reason = v1.RetainedPruneOff
	if s := ask(); !s.WasPruneOff {
		t.Errorf("left while pruning was off: %+v", s)
	}
	// The list was cut behind others that left while pruning was off: this one may be among those that it does not show.
	ks.Status.Rollout.Retained[0].ID, ks.Status.Rollout.RetainedCount = "shop_other__ConfigMap", 2
	if s := ask(); !s.WasPruneOff {
		t.Errorf("not shown: %+v", s)
	}
	ks.Status.Rollout.RetainedCount = 1
	if s := ask(); s.WasPruneOff {
		t.Errorf("shown to be another one: %+v", s)
	}
}

// A refusal is remembered with its text until the object is deleted or gone.
func TestRefusalIsRemembered(t *testing.T) {
	p, s := passAgainst(newKustomization())
	facts, _, err := p.facts(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	deletions := plan.Prune(facts).Delete
	if len(deletions) != 1 {
		t.Fatalf("%+v", plan.Prune(facts))
	}
	s.faults["delete"] = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "old", errRefused)
	p.delete(t.Context(), deletions)
	if r, ok := p.mem.refused[config]; !ok || r.Message == "" || !r.At.Equal(now) {
		t.Errorf("%+v", p.mem.refused)
	}
	if facts := p.knownFacts(p.inventory.Entries()); facts.Stale[0].Refused == nil {
		t.Error("the planner is not told")
	}
	s.faults["delete"] = nil
	p.delete(t.Context(), deletions)
	if len(p.mem.refused) > 0 || p.inventory.Len() != 1 {
		t.Errorf("accepted: refused are %v, in the inventory %d; the object is there until it is seen to be gone", p.mem.refused, p.inventory.Len())
	}
}

// What another Kustomization has taken up a moment ago is not deleted by a list from before.
func TestSiblingsAreReadAgainBeforeADeletion(t *testing.T) {
	for name, moved := range map[string]bool{"nobody takes it": false, "another one takes it": true} {
		p, s := passAgainst(newKustomization())
		facts, _, err := p.facts(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		if moved {
			other := newKustomization()
			other.Name, other.UID = "other", "other"
			other.Status.Inventory = inventory.Of(inventory.Entry{ID: config, Version: "v1"}).Encode()
			s.others = []v1.Kustomization{*other}
		}
		p.carryOut(t.Context(), facts)
		if deleted := len(s.deleted) > 0; deleted == moved {
			t.Errorf("%s: deleted %q; kept %+v", name, s.deleted, p.plan.Retain)
		}
		if moved && (len(p.plan.Retain) != 1 || p.plan.Retain[0].Reason != v1.RetainedMovedElsewhere) {
			t.Errorf("%s: kept %+v", name, p.plan.Retain)
		}
	}
}

// Which objects a deleted Kustomization takes along is what its deletion policy says, and none while it is suspended.
func TestLeavesAll(t *testing.T) {
	for _, tt := range []struct {
		policy           string
		suspended, prune bool
		want             bool
	}{
		{"", false, true, false}, {"", false, false, true}, {"", true, true, true},
		{fluxv1.DeletionPolicyMirrorPrune, false, true, false}, {fluxv1.DeletionPolicyMirrorPrune, false, false, true},
		{fluxv1.DeletionPolicyOrphan, false, true, true}, {fluxv1.DeletionPolicyOrphan, false, false, true},
		{fluxv1.DeletionPolicyDelete, false, true, false}, {fluxv1.DeletionPolicyDelete, false, false, false},
		{fluxv1.DeletionPolicyDelete, true, true, true}, {fluxv1.DeletionPolicyWaitForTermination, false, false, false},
	} {
		ks := newKustomization()
		ks.Spec.DeletionPolicy, ks.Spec.Suspend, ks.Spec.Prune = tt.policy, tt.suspended, tt.prune
		if got := passOn(ks).leavesAll(); got != tt.want {
			t.Errorf("policy %q, suspended %t, prune %t: leaves all %t, want %t", tt.policy, tt.suspended, tt.prune, got, tt.want)
		}
	}
}

// A source that is gone asks nothing of siblings; one that can't be read leaves open what they are to have built.
func TestSiblingsOfADeletedKustomization(t *testing.T) {
	for name, tt := range map[string]struct {
		fault  error
		known  bool
		newest string
	}{
		"the source is there": {nil, true, "main@sha1:abc"},
		"it is gone":          {apierrors.NewNotFound(schema.GroupResource{Resource: "gitrepositories"}, "app"), true, ""},
		"it is unread":        {apierrors.NewServiceUnavailable("etcd is gone"), false, ""},
	} {
		p, s := passAgainst(newKustomization())
		s.faults["GitRepository"] = tt.fault
		facts := plan.Facts{}
		p.lookAtSiblings(t.Context(), &facts)
		if facts.Siblings.Known != tt.known || facts.Build.Newest != tt.newest || (facts.Siblings.Why == "") != tt.known {
			t.Errorf("%s: %+v, newest %q", name, facts.Siblings, facts.Build.Newest)
		}
	}
}

// What is left for the others is left for good: that is not decided by a list that may be a moment old.
func TestSiblingsAreListedAnewBeforeObjectsAreLeft(t *testing.T) {
	for name, tt := range map[string]struct {
		waited time.Duration
		want   int
	}{
		"others are still waited for": {time.Minute - time.Second, 1},
		"the wait for them is over":   {time.Minute, 2},
	} {
		p, s := passAgainst(newKustomization())
		facts := plan.Facts{Now: p.now, LeavingSince: p.now.Add(-tt.waited), Policy: plan.Policy{Timeout: time.Minute}}
		p.Siblings.Siblings(t.Context(), p.ks, p.now, 0)
		p.lookAtSiblings(t.Context(), &facts)
		if s.lists != tt.want || !facts.Siblings.Known {
			t.Errorf("%s: %d lists, want %d; %+v", name, s.lists, tt.want, facts.Siblings)
		}
	}
}

// What a process remembers is about one object, not about whatever has the name later.
func TestMemoryIsOfOneObject(t *testing.T) {
	var ms memories
	key := types.NamespacedName{Namespace: "flux-system", Name: "shop"}
	first := ms.of(key, "a")
	first.appliedKey = "applied"
	if again := ms.of(key, "a"); again != first {
		t.Error("it was forgotten")
	}
	if anew := ms.of(key, "b"); anew == first || anew.appliedKey != "" || anew.refused == nil {
		t.Errorf("inherited: %+v", anew)
	}
}

// What could not be applied ends the pass: nothing is verified or pruned on the strength of it.
func TestFailedApplyEndsThePass(t *testing.T) {
	p, _ := passAgainst(newKustomization())
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion("v1")
	obj.SetKind("ConfigMap")
	obj.SetNamespace("shop")
	obj.SetName("new") // which the server can't read
	p.built.Objects, p.rollout.Phase, p.rollout.Wanted = []*unstructured.Unstructured{obj}, v1.PhaseApplying, &v1.RevisionDigest{Digest: "sha256:d"}
	out := p.apply(t.Context())
	if out == nil || out.state != stateFailed || p.applied || p.mem.appliedKey != "" || p.rollout.Phase != v1.PhaseRefused {
		t.Errorf("%+v; applied %t, phase %s", out, p.applied, p.rollout.Phase)
	}
}

// What is stored is bound to the version that was read, so that a newer inventory is never written over.
func TestStatusIsBoundToItsVersion(t *testing.T) {
	p, s := passAgainst(newKustomization())
	p.record(t.Context())
	if len(s.stored) != 1 || !strings.Contains(s.stored[0], `"resourceVersion":"7"`) {
		t.Errorf("stored: %q", s.stored)
	}
}
