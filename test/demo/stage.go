package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/testkit/cluster"
	"github.com/holdfast-gitops/holdfast/internal/testkit/gitserver"
)

// stage is what the story is played on: a cluster, a Git server and the controller.
type stage struct {
	*narrator
	// bin is the directory of the programs, dir that of everything that the demo writes.
	bin, dir string

	cluster    *cluster.Cluster
	kube       client.Client
	git        *gitserver.Server
	controller *exec.Cmd
	// exited is closed once the controller has ended.
	exited chan struct{}
}

// newStage makes the directory of the demo. Nothing runs yet.
func newStage(n *narrator) (*stage, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-demo-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the demo: %w", err)
	}
	return &stage{narrator: n, bin: bin, dir: dir}, nil
}

// programs finds the directory bin, here or above.
func programs() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	for {
		bin := filepath.Join(dir, "bin")
		if isFile(filepath.Join(bin, "holdfast")) && isFile(filepath.Join(bin, "devcluster")) {
			return bin, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("bin/holdfast or bin/devcluster is not built: run `make demo`, which builds both")
		}
		dir = parent
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// open starts everything.
func (s *stage) open(ctx context.Context) error {
	for _, start := range []func(context.Context) error{s.startCluster, s.startGit, s.installCRDs, s.startController} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) startCluster(ctx context.Context) error {
	began := time.Now()
	// The demo's controller looks at all namespaces: it must never meet the cluster that someone runs tests on.
	if err := os.Unsetenv(cluster.KubeconfigVariable); err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	var err error
	if s.cluster, err = cluster.Start(ctx, cluster.Options{}); err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	scheme, err := app.NewScheme()
	if err != nil {
		return err
	}
	if s.kube, err = client.New(s.cluster.Config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	s.say("Kubernetes is up, with a real API server, controllers, scheduler and kubelet (%s)", time.Since(began).Round(time.Second))
	return nil
}

func (s *stage) startGit(context.Context) error {
	s.git = gitserver.New(filepath.Join(s.dir, "git"))
	if err := s.git.Start(); err != nil {
		return fmt.Errorf("start the Git server: %w", err)
	}
	s.say("a Git server listens on %s", strings.TrimSuffix(s.git.URL(""), "/"))
	return nil
}

func (s *stage) installCRDs(ctx context.Context) error {
	if _, err := s.output(ctx, "", "holdfast", "install", "--crds-only"); err != nil {
		return err
	}
	s.say("$ holdfast install --crds-only")
	return nil
}

func (s *stage) startController(context.Context) error {
	log, err := os.Create(s.controllerLogPath())
	if err != nil {
		return fmt.Errorf("make the log of holdfast: %w", err)
	}
	cmd := s.program(context.Background(), "holdfast", "run", "--metrics-addr=0", "--health-addr=0", "--log-encoding=json",
		"--storage-addr=127.0.0.1:0", "--storage-path="+filepath.Join(s.dir, "artifacts"))
	cmd.Stdout, cmd.Stderr = log, log
	// The child has a descriptor of its own.
	if err := errors.Join(cmd.Start(), log.Close()); err != nil {
		return fmt.Errorf("start holdfast: %w", err)
	}
	s.controller, s.exited = cmd, make(chan struct{})
	go func() {
		defer close(s.exited)
		// How it ends is told by its log; see dead.
		_ = cmd.Wait()
	}()
	s.say("$ holdfast run")
	return nil
}

// dead is an error once the controller has ended, so that nothing is waited for in vain.
func (s *stage) dead() error {
	select {
	case <-s.exited:
		return fmt.Errorf("holdfast ended: %s", s.controller.ProcessState)
	default:
		return nil
	}
}

// stopTimeout is how long the controller may take to end.
const stopTimeout = 15 * time.Second

// close ends everything and removes what was written.
func (s *stage) close() error {
	var problems []error
	if s.controller != nil {
		problems = append(problems, s.stopController())
	}
	if s.git != nil {
		problems = append(problems, s.git.Close())
	}
	if s.cluster != nil {
		problems = append(problems, s.cluster.Stop())
	}
	return errors.Join(append(problems, os.RemoveAll(s.dir))...)
}

func (s *stage) stopController() error {
	if err := s.controller.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop holdfast: %w", err)
	}
	select {
	case <-s.exited:
		return nil
	case <-time.After(stopTimeout):
	}
	if err := s.controller.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill holdfast, which did not end in %s: %w", stopTimeout, err)
	}
	<-s.exited
	return nil
}

func (s *stage) controllerLogPath() string { return filepath.Join(s.dir, "holdfast.log") }

// logLines and logWidth are how much of the controller's log a failure shows.
const (
	logLines = 15
	logWidth = 300
)

func (s *stage) controllerLog() []byte {
	content, err := os.ReadFile(s.controllerLogPath())
	if errors.Is(err, fs.ErrNotExist) {
		return []byte("(it was not started)")
	}
	if err != nil {
		return fmt.Appendf(nil, "(it could not be read: %v)", err)
	}
	lines := bytes.SplitAfter(bytes.TrimSpace(content), []byte("\n"))
	lines = lines[max(0, len(lines)-logLines):]
	for i, line := range lines {
		if len(line) > logWidth {
			lines[i] = append(bytes.ToValidUTF8(line[:logWidth:logWidth], nil), "...\n"...)
		}
	}
	return bytes.Join(lines, nil)
}

// explainKept says how to use what is left up.
func (s *stage) explainKept() {
	s.heading("Everything stays up until Ctrl-C. In another terminal:")
	s.say("export KUBECONFIG=%s", s.cluster.Kubeconfig)
	s.say("%s/devcluster kubectl get kustomizations,pods,configmaps -A    # or your own kubectl", s.bin)
	s.say("%s/holdfast status -A", s.bin)
	s.say("git clone %s    # commit and push to release", s.git.URL(secondNamespace))
	s.say("  to try: in shop.yaml, an image with the tag missing can't be pulled, and one with the tag crash exits; change GREETING,")
	s.say("  too, in kustomization.yaml; push, and ask: %s/holdfast why %s -n %s", s.bin, appName, secondNamespace)
	s.say("tail -f %s    # the log of holdfast", s.controllerLogPath())
}
