// Bench measures what a fleet of Kustomizations costs on the embedded Kubernetes: seconds until all are ready, CPU seconds and
// memory of the controller, and the requests that it sends, by its own count.
//
// Each run has a cluster of its own, a Git server on loopback and a controller as a child process, and goes through the
// same phases: install, an update of a generated ConfigMap in all Kustomizations, a resync on request, an idle interval, and, with
// -stuck, a new Kustomization beside neighbours that never become ready. PEER_CMD in the environment names another controller with
// the same API, for the shell: it then does the same in runs that alternate with those of holdfast. It finds KUBECONFIG, METRICS_ADDR
// (where it has to serve its metrics; PEER_METRICS may list more addresses, if it is several processes) and DIR (for its
// files) in its environment.
//
// What the API server takes for the objects alone is measured beside it: they are applied by a bare client.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// settings are what the flags say.
type settings struct {
	fleet, objects, stuck, rounds, concurrent int
	interval, settle                          time.Duration
	pods                                      bool
	json, profiles                            string
}

func main() {
	log.SetLogger(logr.Discard())
	var s settings
	flag.IntVar(&s.fleet, "n", 100, "the number of Kustomizations")
	flag.IntVar(&s.objects, "objects", 5, "the number of objects of each, five at least")
	flag.IntVar(&s.stuck, "stuck", 0, "the number of neighbours that never become ready; 0 leaves that phase out")
	flag.IntVar(&s.rounds, "rounds", 1, "how often everything is done")
	flag.IntVar(&s.concurrent, "concurrent", 4, "the workers of holdfast, and of the bare client")
	flag.DurationVar(&s.interval, "interval", 30*time.Second, "the interval of the idle phase; 0 leaves it out")
	flag.DurationVar(&s.settle, "settle", 3*time.Second, "the time after a phase that is counted with it, for what is done after Ready")
	flag.BoolVar(&s.pods, "pods", false, "run a pod for each Kustomization, and wait for it")
	flag.StringVar(&s.json, "json", "bin/bench.json", "the file for the figures")
	flag.StringVar(&s.profiles, "profiles", "", "a directory for CPU profiles of holdfast, one of each phase")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench does all rounds, and prints and writes what they measured.
func bench(ctx context.Context, s settings) error {
	if s.objects < least {
		return fmt.Errorf("-objects must be %d at least", least)
	}
	var figures []figure
	for round := range s.rounds {
		for _, c := range contenders(s, round) {
			measured, err := run(ctx, s, c)
			if err != nil {
				return fmt.Errorf("round %d of %s: %w", round+1, c.name, err)
			}
			for _, f := range measured {
				f.Round = round + 1
				figures = append(figures, f)
			}
		}
	}
	fmt.Print(table(figures))
	content, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the figures: %w", err)
	}
	return os.WriteFile(s.json, append(content, '\n'), 0o644)
}

// contender is a controller to measure.
type contender struct {
	name    string
	command []string
	// metrics are the addresses that it serves metrics on, beside the one that it is given.
	metrics string
}

// contenders are the controllers of a round, in an order that alternates.
func contenders(s settings, round int) []contender {
	list := []contender{{name: "holdfast", command: []string{"bin/holdfast", "run", "--health-addr=0", "--storage-addr=127.0.0.1:0",
		"--log-encoding=json", fmt.Sprintf("--concurrent=%d", s.concurrent)}}}
	if peer := os.Getenv("PEER_CMD"); peer != "" {
		list = append(list, contender{name: "peer", command: []string{"sh", "-c", peer}, metrics: os.Getenv("PEER_METRICS")})
	}
	if round%2 == 1 && len(list) == 2 {
		list[0], list[1] = list[1], list[0]
	}
	return list
}

// run measures one controller on a new cluster.
func run(ctx context.Context, s settings, c contender) (figures []figure, err error) {
	w, err := newWorld(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if c.name == "holdfast" {
		if figures, err = w.floor(ctx); err != nil {
			return nil, err
		}
	}
	if w.controller, err = start(w, c); err != nil {
		return nil, err
	}
	for _, p := range w.phases() {
		f, err := w.measure(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("phase %s: %w; the log of the controller ends with:\n%s", p.name, err, w.controller.tail())
		}
		f.Controller = c.name
		fmt.Fprintf(os.Stderr, "%s %s: %.1fs\n", c.name, p.name, f.Seconds)
		figures = append(figures, f)
	}
	return figures, nil
}
