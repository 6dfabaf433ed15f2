package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// planSection is a part of the text of a plan.
type planSection struct {
	title   string
	actions []Planned
}

// What a person has to look at comes first.
var planSections = []planSection{
	{"REFUSED", []Planned{PlanRefuse}},
	{"REMOVED OR REPLACED", []Planned{PlanReplace, PlanPrune, PlanForget}},
	{"NEEDS CONFIRMATION", []Planned{PlanConfirm}},
	{"CHANGED", []Planned{PlanChange, PlanRename}},
	{"NEW", []Planned{PlanCreate}},
	{"KEPT", []Planned{PlanKeep, PlanMove}},
	{"NOT KNOWN", []Planned{PlanUnclear}},
	{"SKIPPED", []Planned{PlanSkip}},
}

// planSigns stand before an object; the section says the same in words.
var planSigns = map[Planned]string{PlanCreate: "+", PlanChange: "~", PlanRename: ">", PlanReplace: "!", PlanRefuse: "x", PlanUnclear: "?",
	PlanSkip: ".", PlanPrune: "-", PlanKeep: "=", PlanConfirm: "?", PlanMove: "=", PlanForget: "."}

// WriteText writes the plan.
func (p Plan) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	b.WriteString(p.headline(o) + "\n")
	if p.Refused != "" {
		b.WriteString("\nREFUSED: nothing of it is applied, and nothing is pruned\n")
		for line := range strings.SplitSeq(strings.TrimSpace(o.short(p.Refused)), "\n") {
			b.WriteString("  " + line + "\n")
		}
	} else {
		b.WriteString("\n" + p.summary() + "\n")
	}
	for _, s := range planSections {
		p.writeSection(&b, s, o)
	}
	if len(p.Notes) > 0 || len(p.Unseen) > 0 {
		b.WriteByte('\n')
	}
	for _, n := range p.Notes {
		b.WriteString("note: " + o.short(n) + "\n")
	}
	for _, u := range p.Unseen {
		b.WriteString("not seen: " + o.short(u) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p Plan) headline(o TextOptions) string {
	was := "does not exist yet"
	if p.State != "" {
		was = fmt.Sprintf("%s (%s)", orDash(o.revision(p.Runs)), p.State.lower())
	}
	return fmt.Sprintf("%s/%s: %s -> %s", p.Namespace, p.Name, was, o.revision(p.To))
}

// planWords are how the summary counts.
var planWords = []struct {
	actions []Planned
	words   string
}{
	{[]Planned{PlanRefuse}, "refused"}, {[]Planned{PlanChange}, "changed"}, {[]Planned{PlanRename}, "renamed"}, {[]Planned{PlanCreate}, "new"},
	{[]Planned{PlanReplace}, "to replace"}, {[]Planned{PlanPrune}, "to prune"}, {[]Planned{PlanConfirm}, "to confirm"},
	{[]Planned{PlanKeep, PlanMove}, "kept"}, {[]Planned{PlanForget}, "let go"}, {[]Planned{PlanUnclear}, "not known"}, {[]Planned{PlanSkip}, "skipped"},
}

func (p Plan) summary() string {
	var parts []string
	for _, w := range planWords {
		if n := p.count(w.actions...); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, w.words))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("Nothing changes. %d the same.", p.Unchanged)
	}
	text := fmt.Sprintf("%s. %d the same.", strings.Join(parts, ", "), p.Unchanged)
	switch early := slices.ContainsFunc(p.Objects, func(o PlannedObject) bool { return o.When == beforeApply }); {
	case p.Fails() && early:
		text += " While something is refused, only what goes before the apply is pruned."
	case p.Fails():
		text += " While something is refused, nothing is pruned."
	}
	return text
}

func (p Plan) writeSection(b *strings.Builder, s planSection, o TextOptions) {
	objects := p.bySection(s)
	if len(objects) == 0 {
		return
	}
	b.WriteString("\n" + s.title + "\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, obj := range objects {
		more := obj.more(o)
		fmt.Fprintf(t, "  %s %s", planSigns[obj.Action], spaced(obj.shownID()))
		if more != "" {
			fmt.Fprintf(t, "\t%s", more)
		}
		fmt.Fprintln(t)
		if p.Diff && len(obj.Fields) > 0 {
			_ = t.Flush() // a builder takes everything
			for _, f := range obj.Fields {
				fmt.Fprintf(b, "      %s\n", f.text())
			}
		}
	}
	_ = t.Flush()
}

// shownID is the name without the hash where two hashes follow.
func (p PlannedObject) shownID() string {
	if p.Action == PlanRename {
		return p.ID[:strings.LastIndex(p.ID, "-")]
	}
	return p.ID
}

// more is what is said of an object besides its name, in one line.
func (p PlannedObject) more(o TextOptions) string {
	parts := []string{p.happens(o)}
	if p.Why != "" && p.Reason == "" {
		parts = append(parts, strings.ReplaceAll(strings.TrimPrefix(o.short(p.Why), p.ID+" "), "\n", "; "))
	}
	if p.Compared != "" {
		parts = append(parts, "not dry-run: "+p.Compared)
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "; ")
}

// happens is what the action means for this object.
func (p PlannedObject) happens(o TextOptions) string {
	switch p.Action {
	case PlanChange, PlanReplace:
		text := ""
		if len(p.Fields) > 0 {
			text = shortFields(p.Fields)
		}
		if p.Pods > 0 {
			text += "; rolls " + count(int(p.Pods), "pod")
		}
		return text
	case PlanRename:
		return fmt.Sprintf("%s -> %s, %s", p.Before[strings.LastIndex(p.Before, "-"):], p.ID[strings.LastIndex(p.ID, "-"):], shortKeys(p.Fields))
	case PlanPrune:
		return "pruned " + p.When
	case PlanKeep, PlanMove, PlanConfirm:
		return p.kept(o)
	default:
		return ""
	}
}

// kept is why and how long.
func (p PlannedObject) kept(o TextOptions) string {
	text := string(p.Reason)
	if p.Action == PlanConfirm {
		text = "waits for a person"
	}
	if p.Why != "" {
		text += ": " + o.short(p.Why)
	}
	if len(p.Users) > 0 {
		text += ": " + spacedList(p.Users)
	}
	if p.Until != "" {
		text += ", until " + o.short(p.Until)
	}
	return text
}

// maxShortFields is how many fields a line names.
const maxShortFields = 3

// shortFields names fields by their last word, and one field with its values.
func shortFields(fields []FieldDiff) string {
	if len(fields) == 1 {
		return strings.Replace(fields[0].text(), fields[0].Path, lastWord(fields[0].Path), 1)
	}
	var names []string
	for _, f := range fields {
		if name := lastWord(f.Path); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return listed(names)
}

func listed(names []string) string {
	if more := len(names) - maxShortFields; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxShortFields], ", "), more)
	}
	return strings.Join(names, ", ")
}

// lastWord is the end of a path, with the list item that it is in.
func lastWord(path string) string {
	if strings.HasSuffix(path, `"`) { // a quoted key, which may hold dots
		return path[strings.LastIndex(path[:len(path)-1], `"`):]
	}
	return path[strings.LastIndex(path, ".")+1:]
}

// shortKeys names the keys of config that differ.
func shortKeys(fields []FieldDiff) string {
	var keys []string
	for _, f := range fields {
		for _, part := range []string{"data.", "binaryData.", "stringData."} {
			if key, ok := strings.CutPrefix(f.Path, part); ok {
				keys = append(keys, strings.Trim(key, `"`))
			}
		}
	}
	if len(keys) == 0 {
		return "no key differs"
	}
	return fmt.Sprintf("%s: %s", count(len(keys), "key"), listed(keys))
}

// WriteMarkdown writes the plan for a pull request.
func (p Plan) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	o := TextOptions{}
	fmt.Fprintf(&b, "### holdfast plan: %s/%s\n\n`%s`\n\n", p.Namespace, p.Name, strings.TrimPrefix(p.headline(o), p.Namespace+"/"+p.Name+": "))
	if p.Refused != "" {
		fmt.Fprintf(&b, "**Refused**: nothing of it is applied, and nothing is pruned\n\n%s\n", fenced(p.Refused))
	} else {
		fmt.Fprintf(&b, "**%s**\n", p.summary())
	}
	for _, s := range planSections {
		objects := p.bySection(s)
		if len(objects) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n| | %s | |\n|---|---|---|\n", strings.ToLower(s.title))
		for _, obj := range objects {
			fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", planSigns[obj.Action], spaced(obj.shownID()), inCell(obj.more(o)))
		}
	}
	if p.Diff {
		p.writeFields(&b)
	}
	for i, n := range append(slices.Clone(p.Notes), asUnseen(p.Unseen)...) {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "- %s\n", inCell(Short(n)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p Plan) writeFields(b *strings.Builder) {
	for _, obj := range p.Objects {
		if len(obj.Fields) == 0 {
			continue
		}
		var lines []string
		for _, f := range obj.Fields {
			lines = append(lines, f.text())
		}
		fmt.Fprintf(b, "\n<details><summary>%s</summary>\n\n%s\n</details>\n", spaced(obj.ID), fenced(strings.Join(lines, "\n")))
	}
}

// fenced is text in a block that it can't end itself.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + text + "\n" + fence + "\n"
}

// inCell keeps text from ending a cell, and from being taken for markup.
func inCell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "@", "&#64;").Replace(text)
}

func asUnseen(unseen []string) []string {
	out := make([]string, 0, len(unseen))
	for _, u := range unseen {
		out = append(out, "not seen: "+u)
	}
	return out
}
