package scratch_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/scratch"
)

// What a killed process leaves is removed by the next one, and what a running one works with is not.
func TestOpenSweeps(t *testing.T) {
	base := t.TempDir()
	dead := filepath.Join(base, "holdfast-run-1")
	for _, dir := range []string{dead, filepath.Join(base, "holdfast-run-of-a-person")} {
		if err := os.MkdirAll(filepath.Join(dir, "kustomization-1"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dead+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first, closeFirst, err := scratch.Open(base)
	if err != nil {
		t.Fatal(err)
	}
	second, closeSecond, err := scratch.Open(base)
	if err != nil || second == first {
		t.Fatalf("%s and %s, %v", first, second, err)
	}
	for dir, want := range map[string]bool{dead: false, dead + ".lock": false, first: true, second: true,
		filepath.Join(base, "holdfast-run-of-a-person"): true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", dir, err == nil, want)
		}
	}
	for _, closeDir := range []func() error{closeFirst, closeSecond} {
		if err := closeDir(); err != nil {
			t.Error(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(base, "*")); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}
