package report

import (
	"errors"
	"fmt"
	"io"
	"strings"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// Rollback is the answer of `holdfast rollback`: what would change, or was asked for.
type Rollback struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// From is what is wanted now, and To what would be brought back.
	From v1.RevisionDigest `json:"from"`
	To   v1.RevisionDigest `json:"to"`
	// Changes from the one to the other.
	Changes []ObjectDiff `json:"changes"`
	// Unseen says why the changes are not shown; empty when they are.
	Unseen string `json:"unseen,omitempty"`
	// Until is what ends it.
	Until string `json:"until,omitempty"`
	// Asked is true when the controller was asked to do it.
	Asked bool `json:"asked"`
}

// TargetOf returns what a rollback goes back to: the stored revision that is named, else the newest stored one that is not what
// is wanted now.
func TargetOf(ks *v1.Kustomization, to string) (v1.RevisionDigest, error) {
	r := ks.Status.Rollout
	if r == nil || len(r.Stored) == 0 {
		return v1.RevisionDigest{}, errors.New("no revision is stored: set spec.rollout.keepRevisions or onFailure: Rollback, " +
			"and what is healthy from then on can be brought back")
	}
	if to == "" {
		for _, d := range r.Stored {
			if r.Wanted == nil || d.Digest != r.Wanted.Digest {
				return d.RevisionDigest, nil
			}
		}
		return v1.RevisionDigest{}, errors.New("the only stored revision is the one that runs")
	}
	d, err := FindRevision(ks, to)
	if err != nil {
		return d, err
	}
	if !plan.IsStored(*r, d.Digest) {
		return d, fmt.Errorf("%s is not stored any more, so that it can't be brought back", d.Revision)
	}
	return d, nil
}

// stays says of a change what a rollback leaves as it is.
func stays(d ObjectDiff) string {
	kind, _, _ := strings.Cut(d.ID, "/")
	switch {
	case kind == "Job":
		return "left as it is: a Job is not run again"
	case kind == "PersistentVolumeClaim" && d.Change == Changed:
		return "left as it is: a claim is not taken back"
	case kind == "CustomResourceDefinition" && d.Change == Changed:
		return "left as it is: a definition is not taken back"
	}
	return ""
}

// WriteText writes the plan, or what was asked for.
func (r Rollback) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	healthy := ""
	if r.To.At != nil {
		healthy = ", healthy " + started(*r.To.At)
	}
	fmt.Fprintf(&b, "%s/%s: back to %s%s, from %s.\n", r.Namespace, r.Name, o.revision(r.To.Revision), healthy, orDash(o.revision(r.From.Revision)))
	switch {
	case r.Unseen != "":
		fmt.Fprintf(&b, "What changes is not shown: %s.\n", o.short(r.Unseen))
	case len(r.Changes) == 0:
		b.WriteString("Nothing differs.\n")
	default:
		r.writeChanges(&b, o)
	}
	if r.Asked {
		fmt.Fprintf(&b, "Asked for. Git keeps %s, which is not applied %s. To end it: holdfast release %s -n %s\n",
			orDash(o.revision(r.From.Revision)), untilText(r.Until), r.Name, r.Namespace)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Rollback) writeChanges(b *strings.Builder, o TextOptions) {
	var back []ObjectDiff
	var left []string
	for _, d := range r.Changes {
		if why := stays(d); why != "" {
			left = append(left, "  ! "+spaced(d.ID)+": "+why)
			continue
		}
		back = append(back, d)
	}
	writeDiffs(b, back, o, "  ")
	for _, line := range left {
		b.WriteString(line + "\n")
	}
	b.WriteString("What goes is pruned once the old revision is healthy and nothing uses it.\n")
}

func untilText(until string) string {
	switch until {
	case plan.UntilNext:
		return "until it renders something else"
	case plan.UntilReleased:
		return "until it is released"
	}
	return "until " + until
}

// RevisionDiff is the answer of `holdfast diff`.
type RevisionDiff struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	From      v1.RevisionDigest `json:"from"`
	To        v1.RevisionDigest `json:"to"`
	Changes   []ObjectDiff      `json:"changes"`
}

// WriteText writes the changes.
func (d RevisionDiff) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s: %s -> %s\n", d.Namespace, d.Name, o.revision(d.From.Revision), o.revision(d.To.Revision))
	if len(d.Changes) == 0 {
		b.WriteString("Nothing differs.\n")
	}
	writeDiffs(&b, d.Changes, o, "")
	_, err := io.WriteString(w, b.String())
	return err
}

// Command is the answer of `holdfast retry`, and of `holdfast release` where a pin or a skip ends.
type Command struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Text says what was asked for.
	Text string `json:"text"`
}

// WriteText writes the text.
func (c Command) WriteText(w io.Writer, o TextOptions) error {
	_, err := fmt.Fprintf(w, "%s/%s: %s\n", c.Namespace, c.Name, o.short(c.Text))
	return err
}
