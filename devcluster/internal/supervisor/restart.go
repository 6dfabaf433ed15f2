package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"syscall"
	"time"

	"github.com/holdfast-gitops/holdfast/devcluster/internal/contract"
)

// bindPatience is how long the port of a killed API server may be in use.
const bindPatience = 5 * time.Second

// mayRestart tells whether a component that ended is to be started again: only
// an API server that someone has killed. One that ends by itself would do it
// again, and why is worth more than a cluster that only seems to run.
func (p *processes) mayRestart(child *process) bool {
	var exit *exec.ExitError
	if !p.options.RestartAPIServer || child.name != contract.APIServer || !errors.As(child.err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// restart starts the API server again on its port. Between the two nobody
// listens there, so that clients are refused as by a machine that is up and
// whose API server is not.
func (p *processes) restart(ctx context.Context, child *process) error {
	port, ok := readPort(p.layout.port())
	if !ok {
		return fmt.Errorf("restart %s: %s holds no port", child.name, p.layout.port())
	}
	listener, err := bindAgain(ctx, port)
	if err != nil {
		return fmt.Errorf("restart %s: %w", child.name, err)
	}
	socket, err := socketOf(listener)
	if err != nil {
		return fmt.Errorf("restart %s: %w", child.name, err)
	}
	return p.launch(child, socket)
}

// bindAgain binds a port that may be in use for a moment: a connection from
// this machine to anywhere can have got its number.
func bindAgain(ctx context.Context, port int) (*net.TCPListener, error) {
	deadline := time.After(bindPatience)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		listener, err := bind(port)
		if err == nil {
			return listener, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-deadline:
			return nil, fmt.Errorf("take port %d of 127.0.0.1 again: %w", port, err)
		case <-tick.C:
		}
	}
}
