package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// EventList is the answer of `holdfast events`.
type EventList struct {
	// Events, the newest last.
	Events []Event `json:"events"`
	// Where is where was looked.
	Where Where `json:"-"`
	// About names what was asked about, where it is one.
	About string `json:"-"`
}

// Event is an event about a Kustomization or a source.
type Event struct {
	// Last and First are when it was seen, Count how often.
	Last  metav1.Time `json:"last"`
	First metav1.Time `json:"first"`
	Count int32       `json:"count"`
	// Type is Normal or Warning.
	Type   string `json:"type"`
	Reason string `json:"reason"`
	// Object as Kind/namespace/name.
	Object string `json:"object"`
	// Revision that the event is about, where it says so.
	Revision string `json:"revision,omitempty"`
	Message  string `json:"message"`
}

// EventFilter says which events are shown.
type EventFilter struct {
	// Objects as Kind/namespace/name; all Kustomizations and sources when empty.
	Objects []string
	// Warnings leaves out what is normal.
	Warnings bool
}

// EventsOf reads events.
func EventsOf(all []corev1.Event, filter EventFilter) EventList {
	out := EventList{Events: []Event{}}
	for i := range all {
		if e := eventOf(&all[i]); e != nil && filter.shows(*e) {
			out.Events = append(out.Events, *e)
		}
	}
	slices.SortStableFunc(out.Events, func(a, b Event) int {
		return cmp.Or(a.Last.Time.Compare(b.Last.Time), a.First.Time.Compare(b.First.Time), cmp.Compare(a.Object, b.Object))
	})
	return out
}

func (f EventFilter) shows(e Event) bool {
	return (!f.Warnings || e.Type == corev1.EventTypeWarning) && (len(f.Objects) == 0 || slices.Contains(f.Objects, e.Object))
}

// eventOf reads an event; nil for one about something else.
func eventOf(e *corev1.Event) *Event {
	about := e.InvolvedObject
	gv, err := schema.ParseGroupVersion(about.APIVersion)
	if err != nil || gv.Group != fluxv1.GroupVersion.Group && gv.Group != sourcev1.GroupVersion.Group {
		return nil
	}
	out := &Event{Last: e.LastTimestamp, First: e.FirstTimestamp, Count: max(1, e.Count), Type: e.Type, Reason: e.Reason, Message: strings.TrimSpace(e.Message),
		Object: about.Kind + "/" + about.Namespace + "/" + about.Name, Revision: e.Annotations[gv.Group+"/revision"]}
	if out.Last.IsZero() {
		out.Last = metav1.NewTime(e.EventTime.Time)
	}
	if out.First.IsZero() {
		out.First = out.Last
	}
	return out
}

// WriteText writes a line for each event.
func (l EventList) WriteText(w io.Writer, o TextOptions) error {
	if len(l.Events) == 0 {
		what := "about Kustomizations or sources " + l.Where.text()
		if l.About != "" {
			what = "about " + l.About
		}
		_, err := fmt.Fprintf(w, "No events %s. Kubernetes keeps them for an hour unless it is told otherwise; holdfast history lists rollouts.\n", what)
		return err
	}
	var b strings.Builder
	t := newTable(&b, o, "LAST", "TYPE", "REASON", "OBJECT", "MESSAGE")
	for _, e := range l.Events {
		_, key, _ := strings.Cut(e.Object, "/")
		namespace, name, _ := strings.Cut(key, "/")
		kind := strings.TrimSuffix(e.Object, "/"+key)
		t.row(namespace, age(&e.Last, o.Now)+e.times(o.Now), e.Type, e.Reason, kind+"/"+name, o.why(oneLine(e.Message, o.Wide)))
	}
	t.end()
	_, err := io.WriteString(w, b.String())
	return err
}

// times says how often an event was seen, and since when.
func (e Event) times(now time.Time) string {
	if e.Count < 2 {
		return ""
	}
	return fmt.Sprintf(" (x%d over %s)", e.Count, age(&e.First, now))
}

// oneLine is the first line of a text, or all of it in one.
func oneLine(text string, all bool) string {
	if all {
		return strings.Join(strings.Fields(text), " ")
	}
	return firstLine(text)
}

// Since leaves out what was told already, by the events themselves, and remembers what is left.
func (l EventList) Since(told map[Event]bool) EventList {
	l.Events = slices.DeleteFunc(slices.Clone(l.Events), func(e Event) bool { return told[e] })
	for _, e := range l.Events {
		told[e] = true
	}
	return l
}
