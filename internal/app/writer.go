package app

import (
	"bytes"
	"context"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/rival"
)

// recentWrite is how long after a write of its status a Kustomization counts as looked after by who wrote it.
const recentWrite = 2 * time.Minute

// statusManagers are the names under which kustomize-controller writes the status of Kustomizations.
var statusManagers = []string{v1.StatusManager, v1.ApplyManager}

// findWriter looks for a controller that holds no lease, and wrote the status of a Kustomization a moment ago. What was written
// while a lease was held is explained by it: who gave it up has ended.
func findWriter(ctx context.Context, reader client.Reader, o Options, leases []coordinationv1.Lease, now time.Time) ([]rival.Alive, error) {
	since := now.Add(-recentWrite)
	for _, lease := range leases {
		if !o.isRivalLease(leaseName, lease.Name) {
			continue
		}
		if end := validUntil(&lease); end.After(since) {
			since = end
		}
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1.GroupVersion.WithKind(v1.KustomizationKind + "List"))
	var ours []client.ListOption
	if !o.WatchAllNamespaces {
		ours = append(ours, client.InNamespace(o.Namespace))
	}
	if o.Kustomization.Shard != nil {
		ours = append(ours, client.MatchingLabelsSelector{Selector: o.Kustomization.Shard})
	}
	if err := reader.List(ctx, list, ours...); err != nil {
		return nil, err
	}
	for _, ks := range list.Items {
		if at := writtenAt(ks.ManagedFields); at.After(since) {
			return []rival.Alive{{Controller: rival.KustomizeController, Wrote: ks.Namespace + "/" + ks.Name, Seen: at}}, nil
		}
	}
	return nil, nil
}

// writtenAt is when kustomize-controller wrote a status; zero if it did not, or if holdfast has written it: that uses the same
// name, and a field that no other has. Flux leaves the field in what it took back, so that there it is not seen: a known limit.
func writtenAt(fields []metav1.ManagedFieldsEntry) time.Time {
	for _, entry := range fields {
		if entry.Subresource != "status" || entry.Time == nil || !slices.Contains(statusManagers, entry.Manager) {
			continue
		}
		if entry.FieldsV1 == nil || !bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"f:rollout"`)) {
			return entry.Time.Time
		}
	}
	return time.Time{}
}
