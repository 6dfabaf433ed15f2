// Package release gives this build of Kubernetes its version.
//
// Kubernetes' own build sets it by linker flags, without which every component
// reports the placeholder v0.0.0-master, and clients that ask for the version
// refuse to work with it. A plain `go build` has to do here, so the version of
// the module is put in place when the program starts.
package release

import (
	"fmt"
	"runtime/debug"
	_ "unsafe" // for go:linkname

	"k8s.io/component-base/version"
)

// gitVersion is what the linker flag would set.
//
//go:linkname gitVersion k8s.io/component-base/version.gitVersion
var gitVersion string

//go:linkname gitCommit k8s.io/component-base/version.gitCommit
var gitCommit string

// Kubernetes is the module that decides which version this is.
const Kubernetes = "k8s.io/kubernetes"

// Announce makes all of Kubernetes in this process report its module's
// version. It comes before anything of Kubernetes is used.
func Announce() error {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return fmt.Errorf("find version of %s: the program was built without modules; build it with `go build`", Kubernetes)
	}
	for _, module := range build.Deps {
		if module.Path != Kubernetes {
			continue
		}
		gitVersion, gitCommit = module.Version, ""
		if err := version.SetDynamicVersion(module.Version); err != nil {
			return fmt.Errorf("set version of %s: %w", Kubernetes, err)
		}
		return nil
	}
	return fmt.Errorf("find version of %s: the program was built without it", Kubernetes)
}
