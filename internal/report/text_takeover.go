package report

import (
	"fmt"
	"io"
	"strings"
)

// maxLeftShown bounds the entries that the text lists one by one.
const maxLeftShown = 20

// WriteText writes what is in the way first, then what happens to what.
func (a Takeover) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	if a.Ready {
		fmt.Fprintf(&b, "Ready: nothing keeps holdfast from taking over %s.\n", count(len(a.Kustomizations), "Kustomization"))
	} else {
		fmt.Fprintf(&b, "Not ready: %s to deal with before holdfast takes over.\n", count(len(a.Findings), "thing"))
	}
	writeFindings(&b, a.Findings)
	a.writeObjects(&b, o)
	a.writeLeft(&b, o)
	a.writePatch(&b)
	if a.Ready {
		b.WriteString("\nNEXT\n  holdfast install --controllers=kustomization --force-conflicts     source-controller stays\n" +
			"  holdfast handback --check                                          the way back\n")
	}
	writeMissing(&b, a.MissingRights)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeFindings(b *strings.Builder, findings []Finding) {
	if len(findings) > 0 {
		b.WriteString("\nTO DO\n")
	}
	for _, f := range findings {
		fmt.Fprintf(b, "  %s\n", f.Message)
		for _, do := range f.Do {
			fmt.Fprintf(b, "    %s\n", do)
		}
	}
}

func (a Takeover) writeObjects(b *strings.Builder, o TextOptions) {
	if len(a.Kustomizations) == 0 {
		return
	}
	b.WriteString("\nWHAT IS TAKEN OVER\n")
	o.Namespaces = false
	t := newTable(b, o, "KUSTOMIZATION", "STATE", "RUNS", "OBJECTS", "AS FLUX APPLIED THEM", "LEFT", "NOTE")
	for _, k := range a.Kustomizations {
		note := ""
		switch {
		case k.Elsewhere:
			note = "on another cluster: not looked at"
		case k.Attempted != "":
			note = o.revision(k.Attempted) + " failed under Flux: what left the source since is kept until a revision is healthy"
		case k.State == Paused:
			note = "suspended: left as it is"
		}
		t.row("", k.Kustomization, string(k.State), o.revision(k.Revision), fmt.Sprint(k.Objects), fmt.Sprint(k.Same), fmt.Sprint(k.Left), orDash(note))
	}
	t.end()
	if len(a.Managers) > 0 {
		parts := make([]string, 0, len(a.Managers))
		for _, m := range a.Managers {
			parts = append(parts, fmt.Sprintf("%s %d", m.Manager, m.Objects))
		}
		fmt.Fprintf(b, "Objects by who wrote them: %s.\n", strings.Join(parts, ", "))
	}
	b.WriteString("What is as Flux applied it, and the same in the source, is not written again: its version stays, and nothing is rolled out.\n")
}

func (a Takeover) writeLeft(b *strings.Builder, o TextOptions) {
	if len(a.Left) == 0 {
		return
	}
	b.WriteString("\nWHAT IS LEFT\n")
	o.Namespaces = false
	t := newTable(b, o, "KUSTOMIZATION", "OBJECT", "WHY", "THEN")
	shown := len(a.Left)
	if !o.Wide {
		shown = min(shown, maxLeftShown)
	}
	for _, l := range a.Left[:shown] {
		t.row("", l.Kustomization, spaced(l.Object), o.why(l.Why), l.Then)
	}
	t.end()
	if more := len(a.Left) - shown; more > 0 {
		fmt.Fprintf(b, "and %d more: -o wide lists them\n", more)
	}
}

func (a Takeover) writePatch(b *strings.Builder) {
	if a.Patch != "" {
		fmt.Fprintf(b, "\nIN GIT\n  The repository of %s holds Flux itself. holdfast does not apply what would end its own work, and says so\n"+
			"  (condition RivalSkipped). To have it agree with the cluster, add to the kustomization.yaml beside gotk-components.yaml:\n\n",
			strings.Join(a.PatchIn, ", "))
		for line := range strings.Lines(a.Patch) {
			b.WriteString("    " + line)
		}
		b.WriteString("\n  Before Flux takes over again, take the patches out.\n")
	}
	for _, instance := range a.FluxInstances {
		fmt.Fprintf(b, "\nFluxInstance %s: Flux's operator starts kustomize-controller again and puts its definition back, unless the instance is\n"+
			"annotated with fluxcd.controlplane.io/reconcile: disabled. Do not take kustomize-controller out of spec.components: the definition goes\n"+
			"with it, and every Kustomization.\n", instance)
	}
}
