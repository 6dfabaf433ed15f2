package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	profile := `mode: set
example.com/internal/plan/a.go:3.2,5.6 2 1
example.com/internal/plan/a.go:7.2,9.6 2 0
example.com/internal/plan/a.go:7.2,9.6 2 1
example.com/internal/plan/b.go:12.2,13.6 1 0
`
	var out strings.Builder
	if err := report(strings.NewReader(profile), &out); err != nil || out.String() != "plan: 2 of 3 branches taken; never: b.go:12\n" {
		t.Errorf("%q %v", out.String(), err)
	}
}
