package build

import (
	"fmt"
	"sync"

	"sigs.k8s.io/kustomize/kyaml/openapi"
)

// schema guards the OpenAPI schema that kustomize keeps for the whole process. Parsing the built-in one takes most of
// the time of a small build, and reading it needs no lock once it is parsed; so it is parsed once, and builds that only
// read it share it. Kustomize's own lock does not cover the reads, which is why a build that loads a schema must be alone.
var schema = struct {
	sync.RWMutex
	// builtin says that the built-in schema, and nothing else, is loaded.
	builtin bool
}{}

// withSchema runs a build with the built-in schema. An exclusive build may load another one, which is gone when the
// function returns. A panic of the build is returned as an error.
func withSchema(exclusive bool, build func() error) (err error) {
	if exclusive {
		schema.Lock()
		defer schema.Unlock()
		loadBuiltin()
		// The next build parses the built-in schema again; here nobody may need it.
		defer func() { schema.builtin = false }()
		return guarded(build)
	}
	for {
		schema.RLock()
		if schema.builtin {
			defer schema.RUnlock()
			return guarded(build)
		}
		schema.RUnlock()
		schema.Lock()
		if !schema.builtin {
			loadBuiltin()
			schema.builtin = true
		}
		schema.Unlock()
	}
}

// loadBuiltin has to be called with the write lock. The schema is parsed right away, since a build that loads one of its
// own adds to the built-in one, as in Flux.
func loadBuiltin() {
	openapi.ResetOpenAPI()
	openapi.Schema()
}

// guarded turns a panic into an error: kustomize panics on some malformed input.
func guarded(build func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("recovered from kustomize build panic: %v", r)
		}
	}()
	return build()
}
