package report

import (
	"fmt"
	"strings"
)

// writeSource says what keeps newer commits from being seen.
func (a KustomizationAnswer) writeSource(b *strings.Builder, o TextOptions) {
	if a.SourceTrouble == "" {
		return
	}
	line := o.short(a.SourceTrouble)
	if s := a.Source; s != nil && s.State == Refused {
		line = spaced(s.key()) + " can't be fetched"
		if s.Since != nil {
			line += " since " + s.Since.UTC().Format("2006-01-02 15:04:05Z") + " (" + age(s.Since, o.Now) + ")"
		}
		line += ": " + o.short(a.SourceTrouble)
	}
	paragraph(b, "SOURCE", line+"; newer commits are not seen")
}

// writeLosses says what does not run, and what is gone that should be there.
func (a KustomizationAnswer) writeLosses(b *strings.Builder, o TextOptions) {
	var lines []string
	for _, s := range a.Safe {
		if s.ReadyPods == 0 && s.Wanted > 0 {
			lines = append(lines, fmt.Sprintf("%s: 0 of %s ready", spaced(s.Workload), count(int(s.Wanted), "pod")))
		}
	}
	for _, g := range a.Gone {
		line := fmt.Sprintf("GONE: %s was kept, and is not on the cluster any more", spaced(g.Object))
		if n := len(g.Users); n > 0 {
			line += fmt.Sprintf("; %s: %s", referring(n), spacedList(g.Users))
		}
		if runs := a.Kustomization.Runs; runs != "" {
			line += "; a revert to " + o.short(runs) + " creates it again"
		}
		lines = append(lines, line)
	}
	if len(lines) > 0 {
		paragraph(b, "NOT SAFE", bounded(lines)...)
	}
	if len(a.Absent) == 0 || a.Kustomization.State == Deleting {
		return
	}
	lines = nil
	for _, id := range a.Absent {
		lines = append(lines, spaced(id))
	}
	title := "MISSING ON THE CLUSTER"
	if !a.expectsAll() {
		title += " (not created yet, or taken away)"
	}
	paragraph(b, title, bounded(lines)...)
}

// referring says how many refer to an object.
func referring(n int) string {
	if n == 1 {
		return "1 user refers to it"
	}
	return fmt.Sprintf("%d users refer to it", n)
}

// spacedList names the first users of an object.
func spacedList(users []string) string {
	const shown = 3
	var names []string
	for _, u := range users[:min(len(users), shown)] {
		names = append(names, spaced(u))
	}
	if more := len(users) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

func (a KustomizationAnswer) writeSafe(b *strings.Builder, o TextOptions) {
	var lines []string
	if a.NothingApplied {
		what := "the changed spec"
		if k := a.Kustomization; k.Wants != "" && k.Wants != k.Runs {
			what = o.short(k.Wants)
		}
		lines = append(lines, "nothing of "+what+" was applied, and nothing was pruned")
	}
	for _, s := range a.Safe {
		if line := a.safeLine(s, o); line != "" {
			lines = append(lines, line)
		}
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

// safeLine says how much of a workload runs; empty where nothing does.
func (a KustomizationAnswer) safeLine(s Safe, o TextOptions) string {
	line := ""
	switch {
	case s.ReadyOldPods > 0:
		line = fmt.Sprintf("%s: %s of the former revision ready, %d wanted", spaced(s.Workload), count(s.ReadyOldPods, "pod"), s.Wanted)
	case s.ReadyPods > 0 && a.Kustomization.State == Refused:
		line = fmt.Sprintf("%s: %d of %s ready", spaced(s.Workload), s.ReadyPods, count(int(s.Wanted), "pod"))
	default:
		return ""
	}
	if runs := a.Kustomization.Runs; runs != "" && (s.ReadyOldPods > 0 || a.NothingApplied) {
		line += "; they serve " + o.short(runs)
	}
	return line
}

// writeShared warns of objects that two Kustomizations apply.
func (a KustomizationAnswer) writeShared(b *strings.Builder) {
	var lines []string
	for _, s := range a.Shared {
		lines = append(lines, fmt.Sprintf("%s: %s", spaced(s.Object), strings.Join(s.With, ", ")))
	}
	if len(lines) > 0 {
		paragraph(b, "ALSO IN ANOTHER INVENTORY", bounded(lines)...)
	}
}

// bounded cuts a long list.
func bounded(names []string) []string {
	if len(names) <= maxListed {
		return names
	}
	return append(append([]string{}, names[:maxListed]...), fmt.Sprintf("and %d more", len(names)-maxListed))
}
