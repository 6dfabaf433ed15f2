package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// KeptList is the answer of `holdfast kept`: what is kept from pruning, why, for whom and until when.
type KeptList struct {
	Objects []KeptObject `json:"objects"`
	// Unlisted is the number of kept objects that status counts and does not list.
	Unlisted int32 `json:"unlisted,omitempty"`
	// Where is where was looked.
	Where Where `json:"-"`
	// Name of the Kustomization, where only one was looked at.
	Name string `json:"-"`
}

// KeptObject is one object that is kept, as status records it.
type KeptObject struct {
	// Kustomization is the one that keeps it, as namespace/name.
	Kustomization string `json:"kustomization"`
	v1.RetainedObject
}

// KeptOf reads what Kustomizations keep. With a reason it leaves out what is kept for another one.
func KeptOf(all []v1.Kustomization, reason v1.RetentionReason) KeptList {
	out := KeptList{Objects: []KeptObject{}}
	for i := range all {
		r := all[i].Status.Rollout
		if r == nil {
			continue
		}
		out.Unlisted += max(0, r.RetainedCount-int32(len(r.Retained))) //nolint:gosec // status lists at most 500
		for _, object := range r.Retained {
			if reason == "" || object.Reason == reason {
				out.Objects = append(out.Objects, KeptObject{Kustomization: all[i].Namespace + "/" + all[i].Name, RetainedObject: object})
			}
		}
	}
	slices.SortStableFunc(out.Objects, func(a, b KeptObject) int { return strings.Compare(a.Kustomization, b.Kustomization) })
	return out
}

// WriteText writes a line for each object.
func (k KeptList) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	if len(k.Objects) > 0 {
		o.Namespaces = false
		t := newTable(&b, o, "KUSTOMIZATION", "OBJECT", "WHY", "USED BY", "SINCE", "UNTIL")
		for _, object := range k.Objects {
			t.row("", object.Kustomization, nameOf(object.ID), string(object.Reason), orDash(usedBy(object.RetainedObject, o)),
				age(object.Since, o.Now), o.why(untilOf(object.RetainedObject)))
		}
		t.end()
	} else {
		where := k.Where.text()
		if k.Name != "" {
			where = "by " + k.Name
		}
		fmt.Fprintf(&b, "Nothing is kept from pruning %s.\n", where)
	}
	if k.Unlisted > 0 {
		fmt.Fprintf(&b, "%d more are kept than status lists.\n", k.Unlisted)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// usedBy names the first user and counts the others; all that status names with -o wide.
func usedBy(r v1.RetainedObject, o TextOptions) string {
	shown := 1
	if o.Wide {
		shown = len(r.Users)
	}
	names := make([]string, 0, len(r.Users))
	for _, user := range r.Users[:min(shown, len(r.Users))] {
		names = append(names, spaced(user))
	}
	text := strings.Join(names, ", ")
	if more := int(r.UserCount) - len(names); more > 0 && text != "" {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// untilOf is what ends the retention; a message, such as that of a webhook, goes before it.
func untilOf(r v1.RetainedObject) string {
	if r.Reason == v1.RetainedDeleteFailed && r.Message != "" {
		return firstLine(r.Message)
	}
	return r.Until
}
