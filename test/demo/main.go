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
	go watchParent(stop)
	os.Exit(run(ctx, os.Stdout, os.Getenv("KEEP") != ""))
}

// watchParent ends the demo with the program that started it: `go run` does not pass a SIGTERM on.
func watchParent(cancel context.CancelFunc) {
	parent := os.Getppid()
	for os.Getppid() == parent {
		time.Sleep(time.Second)
	}
	cancel()
}

// run plays the demo and returns the exit code.
func run(ctx context.Context, out io.Writer, keep bool) int {
	n := newNarrator(out)
	s, err := newStage(n)
	if err != nil {
		n.failed(err)
		return 1
	}
	played := perform(ctx, s, keep)
	if err := s.close(); err != nil {
		n.problem("the demo could not clean up: %v", err)
		return 1
	}
	if ctx.Err() != nil {
		n.line("\nStopped. Everything is removed.")
	}
	if !played {
		return 1
	}
	return 0
}

// perform plays the story and tells how it ended; with keep it then waits for the end of the context.
func perform(ctx context.Context, s *stage, keep bool) (played bool) {
	began := time.Now()
	err := play(ctx, s)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		s.failed(err)
		s.quote("the log of holdfast ends with:", s.controllerLog())
	default:
		s.heading(fmt.Sprintf("Every step was seen to be so, in %s.", time.Since(began).Round(time.Second)))
	}
	if keep && s.cluster != nil {
		s.explainKept()
		<-ctx.Done()
	}
	return err == nil
}
