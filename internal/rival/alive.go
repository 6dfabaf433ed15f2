package rival

import (
	"fmt"
	"time"
)

// Alive is a controller that was seen at work.
type Alive struct {
	// Controller is its name.
	Controller string `json:"controller"`
	// Namespace it runs in; empty where that is not known.
	Namespace string `json:"namespace,omitempty"`
	// Lease that it holds as Holder; empty for one without leader election.
	Lease  string `json:"lease,omitempty"`
	Holder string `json:"holder,omitempty"`
	// Wrote is the Kustomization whose status it wrote last.
	Wrote string `json:"wrote,omitempty"`
	// Seen is when it renewed the lease, or wrote.
	Seen time.Time `json:"seen"`
}

// Text says by what it was seen.
func (a Alive) Text(now time.Time) string {
	ago := now.Sub(a.Seen).Round(time.Second)
	if a.Lease == "" {
		return fmt.Sprintf("%s is at work, without a lease: it wrote the status of Kustomization %s %s ago", a.Controller, a.Wrote, ago)
	}
	return fmt.Sprintf("%s is at work: %s holds the lease %s and renewed it %s ago", a.Controller, a.Holder, a.Lease, ago)
}

// StopCommand stops it, in the form of an installation by Flux's own means.
func (a Alive) StopCommand() string {
	namespace := a.Namespace
	if namespace == "" {
		namespace = "flux-system"
	}
	return fmt.Sprintf("kubectl scale deployment %s -n %s --replicas=0", a.Controller, namespace)
}
