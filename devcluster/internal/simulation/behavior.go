package simulation

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Annotations by which a pod says how it behaves; see the package comment.
const (
	AnnotationPrefix     = "devcluster.holdfast.dev/"
	AnnotationUnready    = AnnotationPrefix + "unready"
	AnnotationReadyAfter = AnnotationPrefix + "ready-after"
	AnnotationExitAfter  = AnnotationPrefix + "exit-after"
	AnnotationExitCode   = AnnotationPrefix + "exit-code"
	AnnotationStopAfter  = AnnotationPrefix + "stop-after"
)

// Image tags with a meaning; see the package comment.
const (
	tagMissing = "missing"
	tagCrash   = "crash"
	tagExit0   = "exit0"
)

// behavior is what a container is going to do, fixed when it is created.
type behavior struct {
	exits     bool
	exitAfter time.Duration
	exitCode  int32
	stopAfter time.Duration
}

// role tells the containers of a pod apart which the runtime API does not.
type role int

const (
	roleMain role = iota
	roleInit
)

// containerBehavior derives what a container does from its image, its role and
// the annotations of its pod.
func containerBehavior(image string, as role, annotations map[string]string) (behavior, error) {
	b := imageBehavior(imageTag(image), as)
	var err error
	if b.stopAfter, err = durationOf(annotations, AnnotationStopAfter); err != nil {
		return behavior{}, err
	}
	// An init container that obeyed the rest would hold the pod back from
	// ever showing the behaviour which the annotations ask for.
	if as == roleInit {
		return b, nil
	}
	if _, set := annotations[AnnotationExitAfter]; set {
		b.exits = true
		if b.exitAfter, err = durationOf(annotations, AnnotationExitAfter); err != nil {
			return behavior{}, err
		}
	}
	if code, set := annotations[AnnotationExitCode]; set {
		value, err := strconv.ParseUint(code, 10, 8)
		if err != nil {
			return behavior{}, fmt.Errorf("annotation %s: %q is no exit code; give a number from 0 to 255", AnnotationExitCode, code)
		}
		b.exitCode = int32(value)
	}
	return b, nil
}

func imageBehavior(tag string, as role) behavior {
	switch {
	case tag == tagCrash:
		return behavior{exits: true, exitCode: 1}
	case tag == tagExit0, as == roleInit:
		return behavior{exits: true}
	default:
		return behavior{}
	}
}

// imageTag returns the tag of an image reference, "latest" if it has none.
func imageTag(image string) string {
	name, _, _ := strings.Cut(image, "@")
	// A colon before the last slash belongs to the port of a registry.
	name = name[strings.LastIndex(name, "/")+1:]
	if _, tag, found := strings.Cut(name, ":"); found {
		return tag
	}
	return "latest"
}

func durationOf(annotations map[string]string, key string) (time.Duration, error) {
	value, set := annotations[key]
	if !set {
		return 0, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("annotation %s: %q is no duration; write it as 5s or 1m30s", key, value)
	}
	return d, nil
}

// readyIn returns how long a container that has been running for the given
// time still is not ready; ok is false if it never will be as the pod stands.
// A delay that cannot be read counts as never: a test that misspells it then
// sees an unready pod at once instead of passing by luck.
func readyIn(annotations map[string]string, running time.Duration) (wait time.Duration, ok bool) {
	if annotations[AnnotationUnready] == "true" {
		return 0, false
	}
	delay, err := durationOf(annotations, AnnotationReadyAfter)
	if err != nil {
		return 0, false
	}
	return max(0, delay-running), true
}
