package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// TextOptions say how much of an answer the text shows.
type TextOptions struct {
	// Now is the time to count ages from.
	Now time.Time
	// Namespaces shows the namespace of each line.
	Namespaces bool
	// Wide shows everything in full.
	Wide bool
	// NoHeaders leaves out the headers.
	NoHeaders bool
}

// whyWidth is how much of a reason a line shows unless everything is asked for.
const whyWidth = 100

// WriteText prints the answer as tables and a summary.
func (s Status) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	if len(s.Kustomizations) > 0 {
		s.writeKustomizations(&b, o)
	}
	if len(s.Sources) > 0 {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		s.writeSources(&b, o)
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(s.Summary.text(s.Where) + "\n")
	writeMissing(&b, s.MissingRights)
	_, err := io.WriteString(w, b.String())
	return err
}

func (s Status) writeKustomizations(b *strings.Builder, o TextOptions) {
	t := newTable(b, o, "NAME", "STATE", "RUNS", "WANTS", "SINCE", "KEPT", "WHY")
	for _, k := range s.Kustomizations {
		t.row(k.Namespace, k.Name, string(k.State), o.revision(k.Runs), o.revision(k.Wants), age(k.Since, o.Now),
			fmt.Sprint(k.Kept), o.why(k.Why))
	}
	t.end()
}

func (s Status) writeSources(b *strings.Builder, o TextOptions) {
	t := newTable(b, o, "SOURCE", "STATE", "OFFERS", "SINCE", "WHY")
	for _, r := range s.Sources {
		t.row(r.Namespace, r.Kind+"/"+r.Name, string(r.State), o.revision(r.Revision), age(r.Since, o.Now), o.why(r.Why))
	}
	t.end()
}

func (o TextOptions) revision(r string) string {
	if o.Wide {
		return orDash(r)
	}
	return orDash(Short(r))
}

func (o TextOptions) why(why string) string {
	if o.Wide {
		return orDash(why)
	}
	return orDash(cut(Short(why), whyWidth))
}

// table writes columns that stand under each other.
type table struct {
	w          *tabwriter.Writer
	namespaces bool
}

func newTable(b *strings.Builder, o TextOptions, headers ...string) table {
	t := table{w: tabwriter.NewWriter(b, 0, 0, 2, ' ', 0), namespaces: o.Namespaces}
	if !o.NoHeaders {
		t.row("NAMESPACE", headers...)
	}
	return t
}

func (t table) row(namespace string, cells ...string) {
	if t.namespaces {
		cells = append([]string{namespace}, cells...)
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

// end writes the table into its builder, which never fails.
func (t table) end() { _ = t.w.Flush() }

// text is the summary in one line.
func (s Summary) text(where Where) string {
	failing := ""
	if s.SourcesFailing > 0 {
		failing = fmt.Sprintf("  %s can't be fetched: newer commits are not seen.", count(s.SourcesFailing, "source"))
	}
	if s.Total == 0 {
		return fmt.Sprintf("No Kustomizations %s.", where.text()) + failing
	}
	var parts []string
	for _, state := range urgency {
		if n := s.States[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state.lower()))
		}
	}
	line := fmt.Sprintf("%d in all: %s.", s.Total, strings.Join(parts, ", ")) + failing
	if s.Kept == 0 {
		return line
	}
	line += fmt.Sprintf("  %s kept from pruning, ", count(int(s.Kept), "object"))
	if s.KeptForYou == 0 {
		return line + "none needs you."
	}
	return line + fmt.Sprintf("%d can't go without you.", s.KeptForYou)
}

// count writes a number and a noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func writeMissing(b *strings.Builder, missing []string) {
	for _, m := range missing {
		b.WriteString("note: " + m + "\n")
	}
}
