package build

import (
	"errors"
	"strings"
	"testing"
)

// P39: a panic of kustomize is the error of one build, and the next one goes on.
func TestPanicIsAnError(t *testing.T) {
	for _, exclusive := range []bool{false, true} {
		err := withSchema(exclusive, func() error { panic("fault") })
		if err == nil || !strings.Contains(err.Error(), "panic: fault") {
			t.Errorf("%v", err)
		}
		fault := errors.New("fault")
		if err := withSchema(exclusive, func() error { return fault }); !errors.Is(err, fault) {
			t.Errorf("%v", err)
		}
	}
}
