package supervisor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-gitops/holdfast/devcluster/internal/contract"
)

// Options say which cluster to run.
type Options struct {
	// Dir is where everything is kept.
	Dir string
	// Port of the API server; 0 to have one chosen.
	Port int
	// APIServerArgs are more arguments of the API server.
	APIServerArgs []string
	// RestartAPIServer starts the API server again when it is killed.
	RestartAPIServer bool
	// Ready is where the one line goes that says that a pod can run.
	Ready io.Writer
}

// startTimeout is how long a cluster may take until a pod can run: a hundred
// times of what it takes on an idle machine would still not be a reason to
// hang a test for ever.
const startTimeout = 3 * time.Minute

// errStopped is the cause of a context that ends because the cluster is no
// longer wanted, which is no failure.
var errStopped = errors.New("the cluster is no longer wanted")

// Up runs a cluster until it is told to stop, its parent is gone, or a
// component fails, and leaves no process behind.
func Up(o Options) error {
	ctx, stop := wanted()
	defer stop()
	l, lock, err := open(o.Dir)
	if err != nil {
		return err
	}
	// Closing can't lose anything: the file is for its lock only.
	defer func() { _ = lock.Close() }()
	listener, err := listen(o.Port, l.port())
	if err != nil {
		return err
	}
	if err := writeCredentials(l, portOf(listener)); err != nil {
		return errors.Join(err, listener.Close())
	}
	socket, err := socketOf(listener)
	if err != nil {
		return err
	}
	p, err := newProcesses(l, lock, o)
	if err != nil {
		return err
	}
	return p.supervise(ctx, socket, o.Ready)
}

// supervise runs the components until something ends.
func (p *processes) supervise(ctx context.Context, socket *os.File, ready io.Writer) error {
	booting, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("no pod could run within %s: look into the logs in %s, or try on a machine with less load", startTimeout, p.layout.dir))
	defer cancel()
	booted := make(chan error, 1)
	go func() {
		// Closed, so that it can be waited for whether or not it was read.
		defer close(booted)
		booted <- p.boot(booting, socket)
	}()

	err := p.watch(ctx, booted, ready)
	cancel()
	// The boot must not start a component behind the back of stop.
	for range booted {
	}
	stopErr := p.stop()
	if errors.Is(err, errStopped) {
		err = nil
	}
	return errors.Join(err, stopErr)
}

// watch says when the cluster is up and returns why it has to end.
func (p *processes) watch(ctx context.Context, booted <-chan error, ready io.Writer) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case child := <-p.ended:
			if booted != nil || !p.mayRestart(child) {
				return failure(child)
			}
			if err := p.restart(ctx, child); err != nil {
				return err
			}
		case err := <-booted:
			if err != nil {
				return err
			}
			booted = nil
			if _, err := fmt.Fprintln(ready, "ready"); err != nil {
				return fmt.Errorf("say that the cluster is ready: %w", err)
			}
		}
	}
}

// boot starts the components in the order in which they need each other, and
// returns when a pod has run.
func (p *processes) boot(ctx context.Context, socket *os.File) error {
	etcd, err := p.startEtcd(ctx)
	if err != nil {
		return err
	}
	l := p.layout
	if err := p.start(contract.APIServer, append(apiServerArgs(l, etcd), p.options.APIServerArgs...), socket); err != nil {
		return err
	}
	c, err := newClient(l.kubeconfig())
	if err != nil {
		return err
	}
	if err := c.awaitAPI(ctx); err != nil {
		return err
	}
	for _, next := range []struct {
		name string
		args []string
	}{
		{contract.ControllerManager, controllerManagerArgs(l)},
		{contract.Scheduler, schedulerArgs(l)},
		{contract.Kubelet, kubeletArgs(l)},
	} {
		if err := p.start(next.name, next.args, nil); err != nil {
			return err
		}
	}
	return c.awaitPod(ctx)
}

// startEtcd returns the address that etcd has chosen.
func (p *processes) startEtcd(ctx context.Context) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", fmt.Errorf("create pipe: %w", err)
	}
	if err := p.start(contract.Etcd, etcdArgs(p.layout), w); err != nil {
		return "", errors.Join(err, r.Close())
	}
	// The read ends with etcd at the latest; closing ends it before, when the
	// cluster is no longer wanted.
	defer context.AfterFunc(ctx, func() { _ = r.Close() })()
	line, err := bufio.NewReader(r).ReadString('\n')
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return p.noAddress(ctx, err)
	}
	return strings.TrimSpace(line), r.Close()
}

// noAddress leaves the word to the supervisor if etcd has ended, as it knows
// why; that takes a moment to be noticed.
func (p *processes) noAddress(ctx context.Context, err error) (string, error) {
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-time.After(5 * time.Second):
		return "", fmt.Errorf("read address of etcd: %w", err)
	}
}

// wanted returns a context that ends on an interrupt or termination signal and
// when the parent process is gone. The parent is polled: the kernel's own
// signal for its death comes already when the thread ends that started us.
func wanted() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	// A reader of our output that is gone is noticed as the parent's end.
	signal.Ignore(syscall.SIGPIPE)
	go func() {
		parent := os.Getppid()
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
				cancel(errStopped)
			case <-tick.C:
				if os.Getppid() != parent {
					cancel(errStopped)
				}
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(errStopped) }
}
