// Package telemetry holds the metrics that the controllers share. Their names and labels are contracts: dashboards and
// alerts read them. Metrics of one package only live there.
package telemetry

import (
	"sync"
	"time"

	"github.com/fluxcd/pkg/runtime/metrics"
	corev1 "k8s.io/api/core/v1"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// recorder is registered once per process, however many managers run in it.
var recorder = sync.OnceValue(func() *metrics.Recorder {
	r := metrics.NewRecorder()
	crmetrics.Registry.MustRegister(r.Collectors()...)
	return r
})

// ObserveReconcile adds the duration of one reconciliation to gotk_reconcile_duration_seconds{kind,name,namespace},
// the metric that Flux's dashboards read.
func ObserveReconcile(kind, namespace, name string, start time.Time) {
	recorder().RecordDuration(reference(kind, namespace, name), start)
}

// ForgetReconcile removes the series of an object that is gone.
func ForgetReconcile(kind, namespace, name string) {
	recorder().DeleteDuration(reference(kind, namespace, name))
}

func reference(kind, namespace, name string) corev1.ObjectReference {
	return corev1.ObjectReference{Kind: kind, Namespace: namespace, Name: name}
}
