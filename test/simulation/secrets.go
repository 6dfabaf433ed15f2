package simulation

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
)

// maxMessage is more than any text for people may have, whatever it lists.
const maxMessage = 64 << 10

// storedMark is how the data of a stored revision begins: compressed, and encoded as JSON has it.
const storedMark = "H4sIA"

var encodedMark = base64.StdEncoding.EncodeToString([]byte(secretMark))[:8]

// checkText looks at a text that leaves the controller: in an event, a condition, a log line or an error.
func (w *world) checkText(where, text string) {
	w.stats.Texts++
	switch {
	case strings.Contains(text, secretMark), strings.Contains(text, encodedMark), strings.Contains(text, storedMark):
		w.fail("no secret told", "%s holds the value of a Secret: %s", where, text)
	case len(text) > maxMessage:
		w.fail("bounded texts", "%s has %d bytes", where, len(text))
	case !utf8.ValidString(text):
		w.fail("bounded texts", "%s is cut within a character: %q", where, text)
	}
}

// listener is an event recorder and a log that look at all they are told.
type listener struct{ world *world }

// Event takes an event.
func (l listener) Event(_ runtime.Object, _, reason, message string) {
	l.world.checkText("an event", reason+" "+message)
}

// Eventf takes an event.
func (l listener) Eventf(obj runtime.Object, kind, reason, format string, args ...any) {
	l.AnnotatedEventf(obj, nil, kind, reason, format, args...)
}

// AnnotatedEventf takes an event.
func (l listener) AnnotatedEventf(_ runtime.Object, annotations map[string]string, _, reason, format string, args ...any) {
	text := reason + " " + fmt.Sprintf(format, args...)
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		text += " " + key + "=" + annotations[key]
	}
	if l.world.options.Trace {
		l.world.say("    event: %s", text)
	}
	l.world.checkText("an event", text)
}

// sink is the log of a controller.
type sink struct{ listener }

// Init does nothing.
func (sink) Init(logr.RuntimeInfo) {}

// Enabled is true for everything.
func (sink) Enabled(int) bool { return true }

// Info takes a line.
func (s sink) Info(_ int, message string, values ...any) {
	s.world.checkText("a log line", message+" "+fmt.Sprint(values...))
}

// Error takes a line.
func (s sink) Error(err error, message string, values ...any) {
	s.world.checkText("a log line", fmt.Sprint(err)+" "+message+" "+fmt.Sprint(values...))
}

// WithValues looks at the values, too.
func (s sink) WithValues(values ...any) logr.LogSink {
	s.world.checkText("a log value", fmt.Sprint(values...))
	return s
}

// WithName changes nothing.
func (s sink) WithName(string) logr.LogSink { return s }
