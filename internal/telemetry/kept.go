package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// kept are the metrics of objects that are kept from pruning.
type kept struct {
	objects *prometheus.GaugeVec
	oldest  *prometheus.GaugeVec
	size    *prometheus.GaugeVec
}

var keptMetrics = sync.OnceValue(func() kept {
	k := kept{
		objects: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "holdfast_kept_objects",
			Help: "The number of objects that a Kustomization keeps from pruning, by the reason.",
		}, []string{"namespace", "name", "reason"}),
		oldest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "holdfast_kept_oldest_timestamp_seconds",
			Help: "When the object that a Kustomization keeps longest began to be kept. Absent while it keeps none.",
		}, []string{"namespace", "name"}),
		size: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "holdfast_inventory_size_ratio",
			Help: "How much of what an API server can store of a Kustomization its inventory takes; above 1 a revision is refused.",
		}, []string{"namespace", "name"}),
	}
	crmetrics.Registry.MustRegister(k.objects, k.oldest, k.size)
	return k
})

// Kept sets the metrics of the objects that a Kustomization keeps: their number by reason, and since when the oldest of
// them is kept.
func Kept(namespace, name string, byReason map[string]int, oldest time.Time) {
	k := keptMetrics()
	labels := prometheus.Labels{"namespace": namespace, "name": name}
	k.objects.DeletePartialMatch(labels)
	for reason, n := range byReason {
		k.objects.WithLabelValues(namespace, name, reason).Set(float64(n))
	}
	if oldest.IsZero() {
		k.oldest.Delete(labels)
		return
	}
	k.oldest.With(labels).Set(float64(oldest.Unix()))
}

// ForgetKept removes the metrics of a Kustomization that is gone.
func ForgetKept(namespace, name string) {
	Kept(namespace, name, nil, time.Time{})
	keptMetrics().size.Delete(prometheus.Labels{"namespace": namespace, "name": name})
}

// InventorySize sets the metric of the size of an inventory, as a share of what can be stored.
func InventorySize(namespace, name string, share float64) {
	keptMetrics().size.With(prometheus.Labels{"namespace": namespace, "name": name}).Set(share)
}
