package report

import (
	"fmt"
	"io"
	"strings"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// Confirmation is the answer of `holdfast confirm`: the deletion that waits for a person.
type Confirmation struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Revision is the one that the deletion belongs to.
	Revision string `json:"revision,omitempty"`
	// Digest over exactly these objects; empty when nothing waits.
	Digest string `json:"digest,omitempty"`
	// Message says what would be deleted, by kind.
	Message string `json:"message,omitempty"`
	// Objects are those whose deletion waits.
	Objects []v1.RetainedObject `json:"objects"`
	// Confirmed is true when this very deletion is allowed, and the controller has not acted on it yet.
	Confirmed bool `json:"confirmed"`
}

// ConfirmationOf reads what a Kustomization asks. The digest is computed over the objects that are shown, as the controller
// does, and not taken from anywhere else.
func ConfirmationOf(ks *v1.Kustomization) Confirmation {
	c := Confirmation{Namespace: ks.Namespace, Name: ks.Name, Revision: ks.Status.LastAttemptedRevision, Objects: []v1.RetainedObject{}}
	r := ks.Status.Rollout
	if r == nil {
		return c
	}
	c.Objects = append(c.Objects, plan.Pending(r.Retained)...)
	c.Digest = plan.Digest(r.Retained)
	if r.PendingPrune != nil && len(c.Objects) > 0 {
		c.Message = r.PendingPrune.Message
	}
	c.Confirmed = c.Digest != "" && ks.GetAnnotations()[v1.AnnotationConfirmPrune] == c.Digest
	return c
}

// WriteText writes the set, and how to allow exactly this.
func (c Confirmation) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	key := c.Namespace + "/" + c.Name
	if len(c.Objects) == 0 {
		_, err := fmt.Fprintf(w, "%s asks for no confirmation.\n", key)
		return err
	}
	fmt.Fprintf(&b, "%s at %s: %s\n", key, orDash(o.revision(c.Revision)), orElse(c.Message, count(len(c.Objects), "object")))
	o.Namespaces = false
	t := newTable(&b, o, "OBJECT", "WHY IT WAITS")
	for _, object := range c.Objects {
		t.row("", nameOf(object.ID), orDash(o.why(object.Message)))
	}
	t.end()
	if c.Confirmed {
		b.WriteString("This is confirmed: the controller deletes it as soon as nothing else holds it.\n")
	} else {
		fmt.Fprintf(&b, "Nothing is deleted until you say so. To allow exactly this: %s\n", c.Command())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Command is what allows exactly this deletion.
func (c Confirmation) Command() string {
	return fmt.Sprintf("holdfast confirm %s -n %s --expect %s", c.Name, c.Namespace, c.Digest)
}
