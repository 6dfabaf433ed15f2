package supervisor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// processes are the components of a cluster that run.
type processes struct {
	layout  layout
	lock    *os.File
	options Options
	// lifeline is never written to. The components end when its last writer,
	// this process, is gone.
	lifelineRead, lifeline *os.File

	started []*process
	// ended receives every component that ends.
	ended chan *process
}

type process struct {
	name    string
	args    []string
	cmd     *exec.Cmd
	journal *journal
	// err is how the process ended, once gone is closed. Both are of the last
	// process of the component, and so is cmd; nil before the first.
	err  error
	gone chan struct{}
}

func newProcesses(l layout, lock *os.File, o Options) (*processes, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create pipe: %w", err)
	}
	return &processes{layout: l, lock: lock, options: o, lifelineRead: r, lifeline: w, ended: make(chan *process, 16)}, nil
}

// start starts a component. The file extra becomes a part of the component
// alone and is closed here, unless it is nil.
func (p *processes) start(name string, args []string, extra *os.File) error {
	j, err := newJournal(p.layout.log(name))
	if err != nil {
		return unusable(p.layout.dir, err)
	}
	child := &process{name: name, args: args, journal: j}
	p.started = append(p.started, child)
	return p.launch(child, extra)
}

// launch starts the process of a component, for the first time or again.
func (p *processes) launch(child *process, extra *os.File) error {
	// By this path it is the same program even if its file was replaced.
	cmd := exec.Command("/proc/self/exe", append([]string{"component", child.name}, child.args...)...)
	cmd.Args[0] = "devcluster"
	cmd.Dir = p.layout.dir
	cmd.Env = append(os.Environ(), "TMPDIR="+p.layout.tmp())
	cmd.Stdout, cmd.Stderr = child.journal, child.journal
	cmd.ExtraFiles = []*os.File{p.lifelineRead, p.lock}
	if extra != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, extra)
	}
	// A group of its own: Ctrl-C of a terminal is for the supervisor alone,
	// which would else take a component that obeyed it for one that failed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", child.name, err)
	}
	gone := make(chan struct{})
	child.cmd, child.gone = cmd, gone
	go func() {
		child.err = cmd.Wait()
		close(gone)
		p.ended <- child
	}()
	if extra != nil {
		if err := extra.Close(); err != nil {
			return fmt.Errorf("pass file to %s: %w", child.name, err)
		}
	}
	if err := writeFile(p.layout.pid(child.name), fmt.Appendln(nil, cmd.Process.Pid)); err != nil {
		return unusable(p.layout.dir, err)
	}
	return nil
}

// stop kills all components, the last one first, and waits until they are
// gone. There is nothing they could save: etcd has written what it confirmed.
func (p *processes) stop() error {
	var errs []error
	for _, child := range slices.Backward(p.started) {
		if child.cmd == nil {
			continue // it could not be started
		}
		if err := child.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, fmt.Errorf("kill %s: %w", child.name, err))
		}
	}
	for _, child := range p.started {
		if child.cmd != nil {
			<-child.gone
		}
		errs = append(errs, child.journal.Close())
	}
	return errors.Join(append(errs, p.lifeline.Close(), p.lifelineRead.Close())...)
}

// failure says in one line that a component ended and why.
func failure(child *process) error {
	how := "exit status 0"
	if child.err != nil {
		how = child.err.Error()
	}
	return fmt.Errorf("component %s ended (%s), look into %s; its last error: %s",
		child.name, how, child.journal.path, child.journal.reason())
}
