package inquiry

import (
	"context"
	"fmt"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/report"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// Bounds of what one answer reads.
const (
	maxMakers    = 8
	maxLookedUp  = 300
	maxWorkloads = 20
)

// lookAround reads what made an object, and what is wrong with a pod or a source.
func (q *Inquirer) lookAround(ctx context.Context, seen *report.SeenObject) (missing []string) {
	if seen.Meta == nil {
		return nil
	}
	key := client.ObjectKey{Namespace: seen.ID.Namespace, Name: seen.ID.Name}
	switch {
	case seen.ID.GroupKind() == schema.GroupKind{Kind: "Pod"}:
		pod := corev1.Pod{}
		if err := q.reader.Get(ctx, key, &pod); err != nil {
			missing = append(missing, lacking("get pods"+in(key.Namespace), err, "what is wrong with it is not shown"))
		} else if troubles := report.TroublesOf([]corev1.Pod{pod}); len(troubles) > 0 {
			seen.Trouble = &troubles[0]
		}
	case seen.ID.Group == sourcev1.GroupVersion.Group && seen.ID.Kind == sourcev1.GitRepositoryKind:
		source, lack := q.gitRepository(ctx, key)
		if lack != "" {
			missing = append(missing, lack)
		}
		if source != nil {
			s := report.SourceOf(source)
			seen.Source = &s
		}
	}
	return append(missing, q.makers(ctx, seen)...)
}

// makers follows the controller references upwards.
func (q *Inquirer) makers(ctx context.Context, seen *report.SeenObject) (missing []string) {
	at := seen.Meta
	for range maxMakers {
		ref := metav1.GetControllerOfNoCopy(at)
		if ref == nil {
			return nil
		}
		gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
		seen.Makers = append(seen.Makers, object.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: seen.ID.Namespace, Name: ref.Name})
		maker := &metav1.PartialObjectMetadata{}
		maker.SetGroupVersionKind(gvk)
		err := q.reader.Get(ctx, client.ObjectKey{Namespace: seen.ID.Namespace, Name: ref.Name}, maker)
		if observe.IsAbsent(err) {
			return nil
		}
		if err != nil {
			return []string{lacking("get "+gvk.Kind+" "+ref.Name+in(seen.ID.Namespace), err, "what made that one is not shown")}
		}
		at = maker
	}
	return nil
}

// lookForAbsent looks which objects of the inventory are not on the cluster, and who refers to those.
func (q *Inquirer) lookForAbsent(ctx context.Context, seen *report.SeenKustomization) {
	entries := inventory.Decode(seen.Kustomization.Status.Inventory).Entries()
	var ids []object.ID
	unread := 0
	for i, entry := range entries {
		if i == maxLookedUp {
			unread += len(entries) - i
			break
		}
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(entry.ID.GroupKind().WithVersion(entry.Version))
		err := q.reader.Get(ctx, client.ObjectKey{Namespace: entry.ID.Namespace, Name: entry.ID.Name}, obj)
		switch {
		case observe.IsAbsent(err):
			ids = append(ids, entry.ID)
		case err != nil:
			unread++
		}
		if ctx.Err() != nil {
			return
		}
	}
	if unread > 0 {
		seen.Missing = append(seen.Missing, noteUnread(unread, len(entries)))
	}
	if len(ids) == 0 {
		return
	}
	seen.Absent = map[string][]string{}
	var usable []object.ID
	for _, id := range ids {
		seen.Absent[id.Inventory()] = nil
		if usage.CanBeUsed(id) {
			usable = append(usable, id)
		}
	}
	for id, use := range q.observer.Users(ctx, usable, false) {
		seen.Absent[id.Inventory()] = use.Users
	}
}

// lookAtWorkloads reads how much of a refused Kustomization's workloads still runs.
func (q *Inquirer) lookAtWorkloads(ctx context.Context, seen *report.SeenKustomization) {
	n := 0
	for _, entry := range inventory.Decode(seen.Kustomization.Status.Inventory).Entries() {
		if entry.ID.Group != "apps" || n == maxWorkloads {
			continue
		}
		n++
		w, err := q.workload(ctx, entry.ID.Kind, client.ObjectKey{Namespace: entry.ID.Namespace, Name: entry.ID.Name})
		if err != nil {
			seen.Missing = append(seen.Missing, lacking("read the pods of "+entry.ID.String(), err, "whether they run is not shown"))
			return
		}
		if w != nil {
			seen.Safe = append(seen.Safe, report.Safe{Workload: entry.ID.String(), ReadyPods: w.ready(), Wanted: w.wanted})
		}
	}
}

// isRefused tells whether nothing of what is wanted could be verified.
func isRefused(ks *v1.Kustomization) bool {
	return report.KustomizationOf(ks, nil).State == report.Refused
}

func noteUnread(n, all int) string {
	return fmt.Sprintf("%d of %d objects of the inventory were not looked at: whether they are there is not shown", n, all)
}
