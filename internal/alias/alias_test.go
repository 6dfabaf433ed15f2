package alias

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// bomb is a document of a few lines that stands for 9^levels nodes.
func bomb(levels int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < levels; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.Trim(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	return b.String()
}

func TestCheck(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want error
	}{
		"none":                     {text: "a: [b, c]\n"},
		"few":                      {text: "a: &a {b: c}\nd: *a\ne: {<<: *a}\n"},
		"many of a small one":      {text: "a: &a b\nc:\n" + strings.Repeat("- *a\n", 10_000)},
		"a bomb":                   {text: bomb(9), want: ErrTooMany},
		"a bomb beyond any number": {text: bomb(40), want: ErrTooMany},
		"in a later document":      {text: "a: b\n---\n" + bomb(9), want: ErrTooMany},
		"before a broken document": {text: bomb(9) + "---\na: [\n", want: ErrTooMany},
		"after a broken document":  {text: "a: [\n--- # next\n" + bomb(9), want: ErrTooMany},
		"in many small documents":  {text: strings.Repeat(bomb(5)+"---\n", 20), want: ErrTooMany},
		"in broken small ones":     {text: "a: [\n---\n" + strings.Repeat(bomb(5)+"---\n", 20), want: ErrTooMany},
		"deep by aliases":          {text: "a: &a " + strings.Repeat("[", 6000) + strings.Repeat("]", 6000) + "\nb: " + strings.Repeat("[", 6000) + "*a" + strings.Repeat("]", 6000) + "\n", want: ErrTooDeep},
		"itself":                   {text: "a: &a [*a]\n", want: ErrCircle},
		"itself, further down":     {text: "a: &a {b: {c: &c [{d: *a}]}}\n", want: ErrCircle},
		"no YAML":                  {text: "\x00&*\xff"},
		"text with the signs":      {text: "a: \"* & *\"\n"},
	} {
		if _, err := Check([]byte(tt.text)); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

// FuzzCheck: no text makes it panic.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(bomb(3)))
	f.Add([]byte("a: &a [*a]\n---\nb: *a\n"))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = Check(data) })
}
