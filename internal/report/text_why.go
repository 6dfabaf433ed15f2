package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// maxListed bounds a list of names in a text.
const maxListed = 10

// WriteText prints the answer about an object.
func (a ObjectAnswer) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	b.WriteString(a.sentence() + "\n")
	if !a.Exists {
		b.WriteString("It is not on the cluster: not created yet, or gone.\n")
	}
	if r := a.Retained; r != nil {
		paragraph(&b, "WHY", o.short(reasonText(r)))
		paragraph(&b, "UNTIL", o.short(orElse(r.Until, "the reason is gone")))
		paragraph(&b, "SINCE", age(r.Since, o.Now)+" ago")
	}
	a.writeUsers(&b)
	if k := a.Kustomization; k != nil {
		line := fmt.Sprintf("%s is %s", k.Key(), k.State.lower())
		if k.Wants != "" {
			line += ", wants " + o.short(k.Wants)
		}
		if k.Why != "" {
			line += ": " + o.short(k.Why)
		}
		paragraph(&b, "KUSTOMIZATION", line, fmt.Sprintf("(holdfast why %s -n %s)", k.Name, k.Namespace))
	}
	if a.MadeBy != "" {
		kind, name := kindAndName(a.MadeBy)
		hint := fmt.Sprintf("(holdfast why %s/%s -n %s)", kind, name, a.Object.Namespace)
		paragraph(&b, "MADE BY", spaced(a.MadeBy), hint)
	}
	if len(a.Inventories) > 1 {
		paragraph(&b, "IN THE INVENTORIES OF", a.Inventories...)
	}
	writeMissing(&b, a.MissingRights)
	_, err := io.WriteString(w, b.String())
	return err
}

func (a ObjectAnswer) writeUsers(b *strings.Builder) {
	users, total := a.UsedBy, len(a.UsedBy)
	if r := a.Retained; r != nil && len(r.Users) > 0 {
		users, total = r.Users, max(int(r.UserCount), len(r.Users))
	}
	switch {
	case len(users) > 0:
		lines := make([]string, 0, len(users)+1)
		for _, u := range users[:min(len(users), maxListed)] {
			lines = append(lines, spaced(u))
		}
		if more := total - len(lines); more > 0 {
			lines = append(lines, fmt.Sprintf("and %d more", more))
		}
		paragraph(b, "USED BY", lines...)
	case a.UsersUnknown != "":
		paragraph(b, "USED BY", "unknown: "+a.UsersUnknown)
	case a.looked && a.Standing == Kept:
		paragraph(b, "USED BY", "nothing that runs")
	}
}

// short shortens revisions unless everything is asked for.
func (o TextOptions) short(s string) string {
	if o.Wide {
		return s
	}
	return Short(s)
}

func paragraph(b *strings.Builder, title string, lines ...string) {
	b.WriteString(title + "\n")
	for _, line := range lines {
		b.WriteString("  " + line + "\n")
	}
}

// kindAndName takes apart Kind/namespace/name or Kind/name.
func kindAndName(id string) (kind, name string) {
	parts := strings.Split(id, "/")
	return parts[0], parts[len(parts)-1]
}

// whyCommand is the command that explains a kept object.
func whyCommand(r v1.RetainedObject) string {
	id, err := object.ParseInventory(r.ID)
	if err != nil {
		return "holdfast why for " + r.ID
	}
	command := fmt.Sprintf("holdfast why %s/%s", id.Kind, id.Name)
	if id.Namespace != "" {
		command += " -n " + id.Namespace
	}
	return command
}

// WriteText prints the answer about a Kustomization: always the same paragraphs; empty ones are left out.
func (a KustomizationAnswer) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	b.WriteString(a.sentence(o) + "\n")
	a.writeRoot(&b, o)
	a.writeCauses(&b, o)
	a.writeSafe(&b, o)
	if len(a.WaitingOnThis) > 0 {
		paragraph(&b, "WAITING ON THIS", strings.Join(bounded(a.WaitingOnThis), ", "))
	}
	if len(a.Next) > 0 {
		paragraph(&b, "NEXT", a.Next...)
	}
	writeMissing(&b, a.MissingRights)
	_, err := io.WriteString(w, b.String())
	return err
}

// sentence says how it is, and for how long.
func (a KustomizationAnswer) sentence(o TextOptions) string {
	k := a.Kustomization
	line := k.Key() + " is " + k.State.lower()
	switch k.State {
	case NeedsConfirmation:
		line = k.Key() + " " + k.State.lower()
	case Applying, Verifying, Pruning:
		line += " " + o.short(k.Wants)
	case Healthy:
		line += " on " + o.short(k.Runs)
	case Held, Refused:
		line += " at " + orElse(o.short(k.Wants), "no revision")
	default:
		// No revision bears on it.
	}
	if k.Since != nil {
		line += ": " + age(k.Since, o.Now) + " so far"
	}
	if k.Deadline != nil && k.Deadline.After(o.Now) {
		line += ", gives up in " + k.Deadline.Sub(o.Now).Round(time.Second).String()
	}
	return line + "."
}

func (a KustomizationAnswer) writeRoot(b *strings.Builder, o TextOptions) {
	if len(a.Chain) < 2 {
		return
	}
	root := a.Chain[len(a.Chain)-1] + " does not exist"
	if a.Root != nil {
		root = a.Root.Key() + " is " + a.Root.State.lower()
		if a.Root.Why != "" {
			root += ": " + o.short(a.Root.Why)
		}
	}
	paragraph(b, "ROOT", root)
	paragraph(b, "CHAIN", strings.Join(a.Chain, " -> "))
}

func (a KustomizationAnswer) writeCauses(b *strings.Builder, o TextOptions) {
	var lines []string
	for _, c := range a.Causes {
		line := spaced(c.ID) + "  " + orElse(c.Reason, "Unknown")
		if m := firstLine(c.Message); m != "" {
			line += ": " + m
		}
		lines = append(lines, line)
		for _, p := range c.Pods {
			lines = append(lines, p.lines(o)...)
		}
	}
	state := a.Kustomization.State
	if len(lines) == 0 && state != Healthy && len(a.Chain) == 0 {
		if why := orElse(a.Message, a.Kustomization.Why); why != "" && state != Paused {
			lines = strings.Split(strings.TrimSpace(o.short(why)), "\n")
		}
	}
	if len(lines) > 0 {
		paragraph(b, "CAUSE", lines...)
	}
}

func (p PodTrouble) lines(o TextOptions) []string {
	line := "  Pod " + p.Pod
	if p.Container != "" {
		line += ", container " + p.Container
	}
	line += ": " + p.Reason
	if p.Restarts > 0 {
		line += fmt.Sprintf(", %s", count(int(p.Restarts), "restart"))
	}
	if p.Since != nil {
		line += ", last " + age(p.Since, o.Now) + " ago"
	}
	lines := []string{line}
	if m := firstLine(p.Message); m != "" {
		lines = append(lines, "    "+m)
	}
	return lines
}

func (a KustomizationAnswer) writeSafe(b *strings.Builder, o TextOptions) {
	var lines []string
	for _, s := range a.Safe {
		line := fmt.Sprintf("%s: %s of the former revision ready, %d wanted", spaced(s.Workload), count(s.ReadyOldPods, "pod"), s.Wanted)
		if runs := a.Kustomization.Runs; runs != "" {
			line += "; they serve " + o.short(runs)
		}
		lines = append(lines, line)
	}
	for i, r := range a.Retained {
		if i == maxListed {
			lines = append(lines, fmt.Sprintf("and %d more", int(a.Kustomization.Kept)-maxListed))
			break
		}
		line := fmt.Sprintf("%s (%s", nameOf(r.ID), r.Reason)
		if a.Kustomization.State != Healthy {
			line = "kept: " + line
		}
		if r.Until != "" {
			line += ", until " + o.short(r.Until)
		}
		lines = append(lines, line+")")
	}
	title := "STILL SAFE"
	if a.Kustomization.State == Healthy {
		title = "KEPT FROM PRUNING"
	}
	if len(lines) > 0 {
		paragraph(b, title, lines...)
	}
}

func bounded(names []string) []string {
	if len(names) <= maxListed {
		return names
	}
	return append(append([]string{}, names[:maxListed]...), fmt.Sprintf("and %d more", len(names)-maxListed))
}
