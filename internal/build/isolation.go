package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// Isolation runs builds that fetch something, each in a process of its own. Kustomize waits for the network without a limit
// and can't be told to stop, all the while holding what every other build needs; a process can be ended.
type Isolation struct {
	// Program and Args are the command that calls Serve.
	Program string
	Args    []string

	slot chan struct{}
}

// NewIsolation returns an Isolation that runs one build at a time.
func NewIsolation(program string, args ...string) *Isolation {
	return &Isolation{Program: program, Args: args, slot: make(chan struct{}, 1)}
}

// ErrBusy says that another build fetches something. Nobody waits for it here: whoever waited would keep others from being
// worked on, for as long as some host takes to answer.
var ErrBusy = errors.New("another build with remote bases is running")

// TimeoutError says that what a build refers to did not arrive in time.
type TimeoutError struct {
	// Timeout that passed.
	Timeout time.Duration
}

// Error says what to look at.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("%sthe remote bases were not fetched within %s: check that their hosts answer", buildFailed, e.Timeout)
}

// request and response are what goes to the process and what comes back.
type request struct {
	Root          string
	Kustomization *v1.Kustomization
	NoRemoteBases bool
	Decrypted     map[string][]byte
	Timeout       time.Duration
}

type response struct {
	Objects []map[string]any
	Empty   Emptiness
	Remote  bool
	Error   string
}

// Render is like the function Render, bounded by the timeout. It returns ErrBusy, *TimeoutError, the error of the context, or
// *Error with the text of the build's own error.
func (i *Isolation) Render(ctx context.Context, root string, ks *v1.Kustomization, opts Options, timeout time.Duration) (Rendered, error) {
	select {
	case i.slot <- struct{}{}:
		defer func() { <-i.slot }()
	default:
		return Rendered{}, ErrBusy
	}
	data, err := json.Marshal(request{Root: root, Kustomization: ks, NoRemoteBases: opts.NoRemoteBases, Decrypted: opts.Decrypted, Timeout: timeout})
	if err != nil {
		return Rendered{}, fmt.Errorf("encode the build: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	output, err := i.run(limited, data)
	switch {
	case ctx.Err() != nil:
		return Rendered{}, ctx.Err()
	case limited.Err() != nil:
		return Rendered{}, &TimeoutError{Timeout: timeout}
	case err != nil:
		return Rendered{}, err
	}
	return decodeResponse(output)
}

// run starts the process in a group of its own, with a directory for temporary files that goes with it: git, which it may
// have started, ends with it too.
func (i *Isolation) run(ctx context.Context, input []byte) ([]byte, error) {
	dir, err := os.MkdirTemp("", "remote-")
	if err != nil {
		return nil, fmt.Errorf("create a temporary directory for remote bases: %w", err)
	}
	defer os.RemoveAll(dir) // what is left of it when that fails lies in the temporary directory
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, i.Program, i.Args...)
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), &stdout, &stderr
	command.Env = append(os.Environ(), "TMPDIR="+dir, "GIT_TERMINAL_PROMPT=0", gitProtocols+"="+AllowedGitProtocols)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Second
	if err := command.Run(); err != nil {
		text := stderr.Bytes()
		return nil, fmt.Errorf("%srun the build of remote bases: %w: %s", buildFailed, err, text[max(0, len(text)-200):])
	}
	return stdout.Bytes(), nil
}

// gitProtocols is the variable by which git is told over what it may fetch, and AllowedGitProtocols its value: not from the
// disk, whatever a remote base refers to in turn.
const (
	gitProtocols        = "GIT_ALLOW_PROTOCOL"
	AllowedGitProtocols = "https:http:ssh"
)

func decodeResponse(output []byte) (Rendered, error) {
	u, err := decodeJSON(output)
	if err != nil {
		return Rendered{}, fmt.Errorf("%sread the build of remote bases: %w", buildFailed, err)
	}
	text := func(field string) string {
		s, _ := u.Object[field].(string)
		return s
	}
	if problem := text("Error"); problem != "" {
		return Rendered{}, &remoteError{text: problem}
	}
	rendered := Rendered{Empty: Emptiness(text("Empty")), Remote: u.Object["Remote"] == true}
	objects, _ := u.Object["Objects"].([]any)
	for _, o := range objects {
		content, ok := o.(map[string]any)
		if !ok {
			return Rendered{}, fmt.Errorf("%sread the build of remote bases: an object is a %T", buildFailed, o)
		}
		rendered.Objects = append(rendered.Objects, &unstructured.Unstructured{Object: content})
	}
	return rendered, nil
}

// remoteError is the error of a build in another process, where it was explained already.
type remoteError struct{ text string }

func (e *remoteError) Error() string { return e.text }

// Serve does one build for an Isolation. It ends with the process when time is up, for a parent that is gone and can't end it.
func Serve(in io.Reader, out io.Writer) error {
	var r request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("read the build: %w", err)
	}
	defer time.AfterFunc(r.Timeout+time.Second, func() {
		// The group is the process's own: git is in it.
		_ = syscall.Kill(0, syscall.SIGKILL)
	}).Stop()
	var answer response
	rendered, err := Render(r.Root, r.Kustomization, Options{NoRemoteBases: r.NoRemoteBases, Decrypted: r.Decrypted})
	if err != nil {
		answer.Error = err.Error()
	}
	answer.Empty, answer.Remote = rendered.Empty, rendered.Remote
	for _, obj := range rendered.Objects {
		answer.Objects = append(answer.Objects, obj.Object)
	}
	if err := json.NewEncoder(out).Encode(answer); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}
