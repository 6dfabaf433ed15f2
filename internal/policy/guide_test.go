package policy_test

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// The guide shows the table of annotations line by line, and nothing that is not in it.
func TestGuideShowsTheTable(t *testing.T) {
	content, err := os.ReadFile("../../docs/guide/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "| `"+v1.AnnotationPrefix) {
			rows[strings.TrimSpace(line)] = true
		}
	}
	for _, a := range v1.Annotations {
		stands := "-"
		if a.Field != "" {
			stands = "`spec.rollout." + a.Field + "`"
		}
		row := fmt.Sprintf("| `%s` | %s | %s | %s |", a.Key, a.On, a.Values, stands)
		if !rows[row] {
			t.Errorf("the guide lacks\n%s", row)
		}
		delete(rows, row)
	}
	for row := range rows {
		t.Errorf("the guide has what is not in the table:\n%s", row)
	}
}

// Every field of spec.rollout has its annotation, under the same name in kebab case.
func TestEveryFieldHasItsAnnotation(t *testing.T) {
	byField := map[string]string{}
	for _, a := range v1.Annotations {
		byField[a.Field] = a.Key
	}
	typ := reflect.TypeFor[v1.RolloutPolicy]()
	for i := range typ.NumField() {
		field, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if want := v1.AnnotationPrefix + kebab(field); byField[field] != want {
			t.Errorf("%s has the annotation %q, want %q", field, byField[field], want)
		}
	}
}

func kebab(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
