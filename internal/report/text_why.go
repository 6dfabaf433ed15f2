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
		b.WriteString(a.absence(o) + "\n")
	}
	a.writeTrouble(&b, o)
	if r := a.Retained; r != nil {
		paragraph(&b, "WHY", o.short(reasonText(r)))
		paragraph(&b, "UNTIL", o.short(orElse(r.Until, "the reason is gone")))
		paragraph(&b, "SINCE", age(r.Since, o.Now)+" ago")
	}
	a.writeUsers(&b)
	if k := a.Kustomization; k != nil {
		line := k.Key() + " " + k.State.is()
		if k.Wants != "" {
			line += ", wants " + o.short(k.Wants)
		}
		if k.Why != "" {
			line += ": " + o.short(k.Why)
		}
		paragraph(&b, "KUSTOMIZATION", line, fmt.Sprintf("(holdfast why %s -n %s)", k.Name, k.Namespace))
	}
	a.writeMakers(&b)
	if len(a.Inventories) > 1 {
		paragraph(&b, "IN THE INVENTORIES OF", a.Inventories...)
	}
	writeMissing(&b, a.MissingRights)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTrouble says what is wrong with a pod or a source.
func (a ObjectAnswer) writeTrouble(b *strings.Builder, o TextOptions) {
	if t := a.Trouble; t != nil {
		paragraph(b, "CAUSE", t.lines(o)...)
	}
	if s := a.Source; s != nil {
		if trouble := sourceTrouble(s, "", false); trouble != "" {
			KustomizationAnswer{Source: s, SourceTrouble: trouble}.writeSource(b, o)
		} else {
			paragraph(b, "SOURCE", fmt.Sprintf("%s, offers %s", s.State.is(), orElse(o.short(s.Revision), "nothing yet")))
		}
	}
	if len(a.FollowedBy) > 0 {
		paragraph(b, "FOLLOWED BY", strings.Join(bounded(a.FollowedBy), ", "))
	}
}

// writeMakers says what made the object, up to the top.
func (a ObjectAnswer) writeMakers(b *strings.Builder) {
	if len(a.Makers) > 1 {
		names := make([]string, 0, len(a.Makers))
		for _, m := range a.Makers {
			names = append(names, spaced(m))
		}
		paragraph(b, "MADE BY", strings.Join(names, ", made by "))
		return
	}
	if a.MadeBy != "" {
		kind, name := kindAndName(a.MadeBy)
		hint := fmt.Sprintf("(holdfast why %s/%s -n %s)", kind, name, a.Object.Namespace)
		paragraph(b, "MADE BY", spaced(a.MadeBy), hint)
	}
}

// absence says what it means that the object is not there.
func (a ObjectAnswer) absence(o TextOptions) string {
	if a.Retained == nil {
		return "It is not on the cluster: not created yet, or gone."
	}
	line := "GONE: it was kept, and something else deleted it"
	if a.Kustomization != nil && a.Kustomization.Runs != "" {
		line += "; a revert to " + o.short(a.Kustomization.Runs) + " creates it again"
	}
	return line + "."
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
	a.writeSource(&b, o)
	a.writeLosses(&b, o)
	a.writeSafe(&b, o)
	a.writeShared(&b)
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
	line := k.Key() + " " + k.State.is()
	switch k.State {
	case Paused:
		if k.Runs != "" {
			line += ", runs " + o.short(k.Runs)
		}
		if k.Wants != "" && k.Wants != k.Runs {
			line += "; " + o.short(k.Wants) + " waits"
		}
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
	if k.Deadline != nil {
		if left := k.Deadline.Sub(o.Now).Round(time.Second); left > 0 {
			line += ", gives up in " + left.String()
		} else {
			line += ", gives up now"
		}
	}
	return line + "."
}

func (a KustomizationAnswer) writeRoot(b *strings.Builder, o TextOptions) {
	if len(a.Chain) < 2 {
		return
	}
	root := a.Chain[len(a.Chain)-1] + " does not exist"
	if len(a.Circle) > 0 {
		root = "a circle of spec.dependsOn: " + circleText(a.Circle)
	}
	if a.Root != nil {
		root = a.Root.Key() + " " + a.Root.State.is()
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
