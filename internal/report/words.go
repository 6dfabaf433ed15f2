package report

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// revisionPattern matches the digest of a revision, with the separator before it.
var revisionPattern = regexp.MustCompile(`(@?)sha(?:1|256|512):([0-9a-f]{7})[0-9a-f]{9,}`)

// Short shortens every revision in a text: main@sha1:8be41a7... becomes main@8be41a7.
func Short(text string) string { return revisionPattern.ReplaceAllString(text, "${1}${2}") }

// age is the time since then in one unit, or "-".
func age(then *metav1.Time, now time.Time) string {
	if then == nil || then.IsZero() {
		return "-"
	}
	return duration.ShortHumanDuration(max(0, now.Sub(then.Time)))
}

// orDash stands in for what is empty.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// cut shortens a text to a number of characters.
func cut(s string, limit int) string {
	if limit <= 0 || utf8.RuneCountInString(s) <= limit {
		return s
	}
	return strings.TrimRight(string([]rune(s)[:limit-3]), " ") + "..."
}

// is writes a state as what is said of something: "is held", "needs confirmation".
func (s State) is() string {
	if s == NeedsConfirmation {
		return s.lower()
	}
	return "is " + s.lower()
}

// lower writes a state in a sentence: NeedsConfirmation becomes "needs confirmation".
func (s State) lower() string {
	var b strings.Builder
	for i, r := range string(s) {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}
