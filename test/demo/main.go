// Demo shows on a real Kubernetes what holdfast is for: a broken release that loses nothing.
//
// It starts the embedded Kubernetes, a Git server on loopback and bin/holdfast, and plays the same release three times
// over in two acts: version 1 runs, version 2 is broken and changes the config, two old pods are deleted meanwhile,
// version 3 repairs it. The first act prunes right after the apply, as Flux does today, the second in the default order.
//
// Every step waits until the cluster says what the step expects, and shows what the cluster said. The exit status is 0
// only if each step was seen to be so. KEEP=1 in the environment leaves everything up until Ctrl-C.
//
// The story is in story.go, what it commits in manifests.go, what it waits for in checks.go; stage.go starts and stops the
// programs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	go watchParent(cancel)
	os.Exit(run(ctx, os.Stdout, os.Getenv("KEEP") != ""))
}

// errOrphaned ends a demo that nobody is looking at any more.
var errOrphaned = errors.New("the program that started the demo is gone")

// watchParent ends the demo with the program that started it: `go run` does not pass a SIGTERM on.
func watchParent(cancel context.CancelCauseFunc) {
	parent := os.Getppid()
	for os.Getppid() == parent {
		time.Sleep(time.Second)
	}
	cancel(errOrphaned)
}

// run plays the demo and returns the exit code.
func run(ctx context.Context, out io.Writer, keep bool) (code int) {
	n := newNarrator(out)
	began := time.Now()
	s, err := newStage(n)
	if err == nil {
		defer func() {
			if err := s.close(); err != nil {
				n.problem("the demo could not clean up: %v", err)
				code = 1
			}
		}()
		err = play(ctx, s)
	}
	switch {
	case errors.Is(context.Cause(ctx), errOrphaned):
		return 1
	case ctx.Err() != nil:
		n.problem("interrupted; everything is stopped and removed")
		return 1
	case err != nil:
		n.failed(err)
		if s != nil {
			n.quote("the log of holdfast ends with:", s.controllerLog())
		}
	default:
		n.heading(fmt.Sprintf("Every step was seen to be so, in %s.", time.Since(began).Round(time.Second)))
	}
	if keep && s != nil && s.cluster != nil {
		s.explainKept()
		<-ctx.Done()
	}
	if err != nil {
		return 1
	}
	return 0
}
