package simulation

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/testkit/modelcluster"
)

// maxProbe bounds the writes of a probe.
const maxProbe = 400

// probes tells whether this deletion is to be tried out: not all of them, since a trial costs as much as many steps.
func (w *world) probes() bool { return w.stats.Deletions%2 == 0 }

// wouldMiss tries out what happens without an object: in a copy of the cluster it is taken away, every pod is evicted, what an
// autoscaler or a person has at zero or suspended comes back, and every schedule fires. It names a pod that could not
// start then. No rule about who counts as a user is involved.
func (w *world) wouldMiss(id object.ID) string {
	w.stats.Probes++
	c, victim := w.cluster.Clone(), ""
	c.Edit("probe", id, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	c.Delete("probe", id)
	c.Changed = func(change modelcluster.Change) {
		if change.After == nil || change.After.GetKind() != "Pod" {
			return
		}
		reason, _, _ := unstructured.NestedString(change.After.Object, "status", "reason")
		if strings.HasPrefix(reason, modelcluster.ConfigError) && strings.Contains(reason, id.String()) {
			victim = change.ID().String()
		}
	}
	c.Full = false
	rouse(c)
	for range maxProbe {
		// With 1 the Deployment controller comes last, so that what it would take away is started first.
		if victim != "" || c.Work(1) == "" {
			break
		}
	}
	return victim
}

// rouse makes everything run that can be made to run without a new revision.
func rouse(c *modelcluster.Cluster) {
	set := func(id object.ID, value any, field string) {
		c.Edit("probe", id, func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, value, "spec", field) // the path is a map in every workload
		})
	}
	c.All(func(u *unstructured.Unstructured) {
		id := object.IDOf(u)
		switch id.Kind {
		case "Pod":
			c.Delete("probe", id)
		case "Deployment", "StatefulSet":
			if n, found, _ := unstructured.NestedInt64(u.Object, "spec", "replicas"); found && n == 0 {
				set(id, int64(1), "replicas")
			}
		case "Job":
			set(id, false, "suspend")
		case "CronJob":
			set(id, false, "suspend")
			c.Fire(id)
		}
	})
}
