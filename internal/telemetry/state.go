package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

var stateMetric = sync.OnceValue(func() *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "holdfast_kustomization_state",
		Help: "1 for the state that a Kustomization is in, as `holdfast status` shows it. Alert on Held, RolledBack and NeedsConfirmation.",
	}, []string{"namespace", "name", "state"})
	crmetrics.Registry.MustRegister(g)
	return g
})

// State sets the state that a Kustomization is in; an empty one removes it.
func State(namespace, name, state string) {
	g := stateMetric()
	g.DeletePartialMatch(prometheus.Labels{"namespace": namespace, "name": name})
	if state != "" {
		g.WithLabelValues(namespace, name, state).Set(1)
	}
}
