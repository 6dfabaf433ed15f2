package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// controller is a controller that runs as a child, in a process group of its own.
type controller struct {
	command *exec.Cmd
	// metrics are the addresses of its metrics; pprof is at the first one.
	metrics []string
	log     string
	exited  chan struct{}
}

// start starts a controller. What it needs is in its environment and, for holdfast, in flags.
func start(w *world, c contender) (*controller, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	args := c.command
	if c.name == "holdfast" {
		args = append(args, "--metrics-addr="+address, "--storage-path="+filepath.Join(w.dir, "artifacts"))
	}
	log, err := os.Create(filepath.Join(w.dir, "controller.log"))
	if err != nil {
		return nil, fmt.Errorf("make the log of the controller: %w", err)
	}
	command := exec.Command(args[0], args[1:]...)
	command.Env = append(os.Environ(), "KUBECONFIG="+w.cluster.Kubeconfig, "METRICS_ADDR="+address, "DIR="+w.dir, "TMPDIR="+w.dir)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The child has a descriptor of its own.
	if err := errors.Join(command.Start(), log.Close()); err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	started := &controller{command: command, metrics: []string{address}, log: log.Name(), exited: make(chan struct{})}
	if c.metrics != "" {
		started.metrics = strings.Split(c.metrics, ",")
	}
	go func() {
		defer close(started.exited)
		// How it ends is told by its log.
		_ = command.Wait()
	}()
	return started, nil
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// stopTimeout is how long a controller may take to end.
const stopTimeout = 15 * time.Second

// stop ends the controller with all of its group.
func (c *controller) stop() {
	group := -c.command.Process.Pid
	// A group that is gone needs no signal.
	_ = syscall.Kill(group, syscall.SIGTERM)
	select {
	case <-c.exited:
	case <-time.After(stopTimeout):
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-c.exited
}

// dead is an error once the controller has ended.
func (c *controller) dead() error {
	select {
	case <-c.exited:
		return fmt.Errorf("the controller ended: %s", c.command.ProcessState)
	default:
		return nil
	}
}

// tail is the end of its log.
func (c *controller) tail() []byte {
	content, err := os.ReadFile(c.log)
	if err != nil {
		return fmt.Appendf(nil, "(it could not be read: %v)", err)
	}
	return bytes.TrimSpace(content[max(0, len(content)-2000):])
}
