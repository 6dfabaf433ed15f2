package observe

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/paging"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/scope"
)

// SiblingsAge is how old a list of the Kustomizations may be while nothing is deleted for it. All Kustomizations that wait for
// others share one list in that time.
const SiblingsAge = 2 * time.Second

// DependenciesOf are the names of the Kustomizations that one depends on.
func DependenciesOf(ks *v1.Kustomization) []types.NamespacedName {
	keys := make([]types.NamespacedName, 0, len(ks.Spec.DependsOn))
	for _, d := range ks.Spec.DependsOn {
		key := types.NamespacedName{Namespace: d.Namespace, Name: d.Name}
		if key.Namespace == "" {
			key.Namespace = ks.Namespace
		}
		keys = append(keys, key)
	}
	return keys
}

// neighbours are all Kustomizations of the cluster as they were listed.
type neighbours struct {
	at   time.Time
	list []neighbour
}

// neighbour is a Kustomization, for whoever asks.
type neighbour struct {
	plan.Sibling
	uid     types.UID
	source  object.ID
	cluster string
}

// Siblings lists the other Kustomizations of the whole cluster. Whatever the controller itself is limited to, an object may
// move to any of them. The list may have the given age; with none it is made anew, as it has to be before a deletion.
func (o *Observer) Siblings(ctx context.Context, ks *v1.Kustomization, now time.Time, age time.Duration) plan.Siblings {
	all, err := o.neighbours(ctx, now, age)
	if err != nil {
		return plan.Siblings{Why: fmt.Sprintf("list kustomizations in all namespaces: %v", err)}
	}
	out := plan.Siblings{Known: true, List: make([]plan.Sibling, 0, len(all))}
	for _, n := range all {
		if n.uid != ks.UID {
			n.SameSource = n.source == sourceOf(ks)
			if n.cluster != clusterOf(ks) {
				// It may have objects of the same names, but never the same objects.
				n.SameSource, n.Inventory, n.Kept = false, nil, nil
			}
			out.List = append(out.List, n.Sibling)
		}
	}
	return out
}

// neighbours returns the last list if it is young enough. The time of a list is that of the pass that made it, which began
// before: it is rather taken for too old.
func (o *Observer) neighbours(ctx context.Context, now time.Time, age time.Duration) ([]neighbour, error) {
	o.mu.Lock()
	last, round := o.last, o.round
	o.mu.Unlock()
	if since := now.Sub(last.at); age > 0 && since >= 0 && since < age { // one that is yet to come was made before the clock went back
		return last.list, nil
	}
	list, err := o.listNeighbours(ctx)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if round == o.round {
		o.last = neighbours{at: now, list: list}
	}
	return list, nil
}

// SiblingsChanged says that a list which was made, or is being made, does not count any more.
func (o *Observer) SiblingsChanged() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.round = neighbours{}, o.round+1
}

func (o *Observer) listNeighbours(ctx context.Context) ([]neighbour, error) {
	var all []neighbour
	empty := func() *v1.KustomizationList { return &v1.KustomizationList{} }
	err := paging.Each(ctx, o.Reader, client.ListOptions{Limit: listPage}, empty, func(page *v1.KustomizationList) (bool, error) {
		for i := range page.Items {
			all = append(all, o.neighbour(&page.Items[i]))
		}
		return false, nil
	})
	return all, err
}

func (o *Observer) neighbour(ks *v1.Kustomization) neighbour {
	s := plan.Sibling{
		Owner:     plan.Owner{Name: ks.Name, Namespace: ks.Namespace},
		UID:       string(ks.UID),
		Suspended: ks.Spec.Suspend, // not who is paused: that ends by itself, and then it takes up what the source has for it
		Deleting:  ks.DeletionTimestamp != nil,
		Inventory: object.Set{},
		Kept:      object.Set{},
	}
	for _, key := range DependenciesOf(ks) {
		s.DependsOn = append(s.DependsOn, plan.Owner{Namespace: key.Namespace, Name: key.Name})
	}
	for _, e := range inventory.Decode(ks.Status.Inventory).Entries() {
		s.Inventory[scope.Canonical(e.ID, o.Mapper)] = struct{}{}
	}
	if isOfAnother(ks) {
		s.BuiltRevision = builtByAnother(ks)
	} else {
		o.addRollout(&s, ks)
	}
	return neighbour{Sibling: s, uid: ks.UID, source: sourceOf(ks), cluster: clusterOf(ks)}
}

// addRollout adds what holdfast itself wrote of a Kustomization.
func (o *Observer) addRollout(s *plan.Sibling, ks *v1.Kustomization) {
	r := ks.Status.Rollout
	if r.Wanted != nil {
		s.BuiltRevision = r.Wanted.Revision
		s.SpecPending = r.WantedGeneration != ks.Generation
		o.addSkipped(s, r.Skipped)
	}
	for _, kept := range r.Retained {
		if id, err := object.ParseInventory(kept.ID); err == nil {
			s.Kept[scope.Canonical(id, o.Mapper)] = struct{}{}
		}
	}
}

// isOfAnother tells whether Flux looks after a Kustomization, as it does with those of another shard: it writes no status.rollout,
// and leaves what holdfast wrote there as it was. Then it is the revision in lastAppliedRevision that tells: holdfast has never
// another one there than the one it wants or the last one that it applied in full.
func isOfAnother(ks *v1.Kustomization) bool {
	r, last := ks.Status.Rollout, ks.Status.LastAppliedRevision
	if r == nil {
		return true
	}
	isLast := func(d *v1.RevisionDigest) bool { return d != nil && d.Revision == last }
	return r.Wanted != nil && last != "" && !isLast(r.Wanted) && !isLast(r.Running) && builtByAnother(ks) != ""
}

// builtByAnother is the revision that the inventory of a Kustomization of Flux speaks of; empty while that is not certain. Flux
// writes lastAppliedRevision after the inventory of that revision, and takes Ready back before it applies anything else;
// lastAttemptedRevision comes before the inventory and proves nothing.
func builtByAnother(ks *v1.Kustomization) string {
	if ks.Status.ObservedGeneration != ks.Generation || !conditions.IsTrue(ks, meta.ReadyCondition) {
		return ""
	}
	return ks.Status.LastAppliedRevision
}

// clusterOf identifies the cluster that a Kustomization works on, by its kubeconfig; empty for the controller's own. Two
// kubeconfigs count as two clusters: what they say need not be known to be true.
func clusterOf(ks *v1.Kustomization) string {
	switch kc := ks.Spec.KubeConfig; {
	case kc == nil:
		return ""
	case kc.SecretRef != nil:
		return "Secret/" + ks.Namespace + "/" + kc.SecretRef.Name + "/" + kc.SecretRef.Key
	case kc.ConfigMapRef != nil:
		return "ConfigMap/" + ks.Namespace + "/" + kc.ConfigMapRef.Name
	}
	return "unknown"
}

// addSkipped counts what the source wants of a Kustomization that runs an older revision: it was built, and its objects are
// not free for the taking. Where the list is cut, or not known, it is as if the revision was not built.
func (o *Observer) addSkipped(s *plan.Sibling, skipped *v1.SkippedRevision) {
	if skipped == nil {
		return
	}
	s.BuiltRevision = skipped.Revision
	if !skipped.Compared || int(skipped.NewCount) > len(skipped.New) {
		s.BuiltRevision = ""
	}
	for _, text := range skipped.New {
		if id, err := object.ParseInventory(text); err == nil {
			s.Inventory[scope.Canonical(id, o.Mapper)] = struct{}{}
		}
	}
}

// sourceOf identifies the source that a Kustomization follows.
func sourceOf(ks *v1.Kustomization) object.ID {
	ref := ks.Spec.SourceRef
	namespace := ref.Namespace
	if namespace == "" {
		namespace = ks.Namespace
	}
	return object.ID{Kind: ref.Kind, Namespace: namespace, Name: ref.Name}
}
