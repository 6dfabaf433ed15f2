package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/policy"
)

// Pause is the answer of `holdfast pause`.
type Pause struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	policy.Pause
	// Suspended is true when spec.suspend is set as well, which outlasts the pause.
	Suspended bool `json:"suspended,omitempty"`
}

// PauseOf is the answer about a Kustomization that is about to be paused.
func PauseOf(ks *v1.Kustomization, pause policy.Pause) Pause {
	return Pause{Namespace: ks.Namespace, Name: ks.Name, Pause: pause, Suspended: ks.Spec.Suspend}
}

// WriteText says how long it is paused, and what ends it before.
func (p Pause) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s is paused: %s (%s).\nNothing of it is applied or pruned before that. To end it before: holdfast release %s -n %s\n",
		p.Namespace, p.Name, p.Pause, p.Until.Sub(o.Now).Round(time.Minute), p.Name, p.Namespace)
	if p.Suspended {
		fmt.Fprintf(&b, "It is suspended, too, and stays so afterwards, until: holdfast resume %s -n %s\n", p.Name, p.Namespace)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
