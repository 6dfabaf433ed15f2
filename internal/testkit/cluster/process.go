package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// readyLine is what devcluster prints once everything answers.
	readyLine = "ready"
	// stopTimeout is the time that devcluster gets to end its children.
	stopTimeout = 30 * time.Second
	// logTail is how much of the log an error shows.
	logTail = 4096
)

// process is a running devcluster.
type process struct {
	command *exec.Cmd
	log     *os.File

	// exited is closed once the child is gone, after err is set.
	exited chan struct{}
	err    error
}

// launch starts devcluster and waits for its line.
func launch(ctx context.Context, binary, dir string, o Options) (*process, error) {
	log, err := os.Create(filepath.Join(dir, "devcluster.log"))
	if err != nil {
		return nil, fmt.Errorf("make the log of the cluster: %w", err)
	}
	command := exec.Command(binary, append([]string{"up", "--dir", dir}, o.Args...)...)
	command.Stderr = log
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the output of %s: %w", binary, err), log.Close())
	}
	if err := command.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", binary, err), log.Close())
	}
	p := &process{command: command, log: log, exited: make(chan struct{})}
	ready := make(chan struct{})
	go p.follow(output, ready)
	return p, p.awaitReady(ctx, ready, o.Timeout)
}

// follow reads the output until it ends, then reaps the child. The pipe must be drained before Wait is called.
func (p *process) follow(output io.Reader, ready chan<- struct{}) {
	seen := false
	for scanner := bufio.NewScanner(output); scanner.Scan(); {
		if !seen && scanner.Text() == readyLine {
			seen = true
			close(ready)
		}
	}
	p.err = p.command.Wait()
	close(p.exited)
}

func (p *process) awaitReady(ctx context.Context, ready <-chan struct{}, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case <-ready:
		return nil
	case <-p.exited:
		return errors.Join(fmt.Errorf("the cluster ended before it was ready (%w); its log ends with:\n%s", orOK(p.err), p.tail()), p.log.Close())
	case <-ctx.Done():
		tail := p.tail()
		return errors.Join(fmt.Errorf("the cluster was not ready in time (%w); its log ends with:\n%s", ctx.Err(), tail), p.stop())
	}
}

// errExitedWell is what ended a cluster that reported no error.
var errExitedWell = errors.New("exit status 0")

func orOK(err error) error {
	if err == nil {
		return errExitedWell
	}
	return err
}

// stop asks the child to end, and kills it when it does not.
func (p *process) stop() error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the cluster: %w", err)
	}
	select {
	case <-p.exited:
		// How it ends after the signal does not matter: its data is removed next.
	case <-time.After(stopTimeout):
		if err := p.command.Process.Kill(); err != nil {
			return fmt.Errorf("kill the cluster, which did not end in %s: %w", stopTimeout, err)
		}
		<-p.exited
	}
	if err := p.log.Close(); err != nil {
		return fmt.Errorf("close the log of the cluster: %w", err)
	}
	return nil
}

// tail returns the end of the log, for messages.
func (p *process) tail() []byte {
	content, err := os.ReadFile(p.log.Name())
	if err != nil {
		return fmt.Appendf(nil, "(the log could not be read: %v)", err)
	}
	return bytes.TrimSpace(content[max(0, len(content)-logTail):])
}
