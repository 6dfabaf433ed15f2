package inquiry

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/paging"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// eventPage is how many events one answer of the API server has.
const eventPage = 500

// Events reads the events about the Kustomizations and sources of a namespace, or of all when it is empty; with a name those about that
// Kustomization and its source.
func (q *Inquirer) Events(ctx context.Context, namespace, name string, warnings bool) (report.EventList, error) {
	filter := report.EventFilter{Warnings: warnings}
	namespaces := []string{namespace}
	if name != "" {
		ks, err := q.kustomization(ctx, namespace, name)
		if err != nil {
			return report.EventList{}, err
		}
		ref, source := ks.Spec.SourceRef, ks.Spec.SourceRef.Namespace
		if source == "" {
			source = namespace
		}
		if source != namespace {
			namespaces = append(namespaces, source)
		}
		filter.Objects = []string{v1.KustomizationKind + "/" + namespace + "/" + name, ref.Kind + "/" + source + "/" + ref.Name}
	}
	var all []corev1.Event
	for _, namespace := range namespaces {
		opts := client.ListOptions{Namespace: namespace, Limit: eventPage}
		err := paging.Each(ctx, q.reader, opts, func() *corev1.EventList { return &corev1.EventList{} }, func(page *corev1.EventList) (bool, error) {
			all = append(all, page.Items...)
			return false, nil
		})
		if err != nil {
			return report.EventList{}, failed("list events"+in(namespace), "events", err)
		}
	}
	list := report.EventsOf(all, filter)
	list.Where = report.Where(namespace)
	if name != "" {
		list.About = "Kustomization " + namespace + "/" + name + " or its source"
	}
	return list, nil
}
