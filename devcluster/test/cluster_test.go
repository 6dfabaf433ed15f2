package test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// patience bounds every wait; a machine with load may need much of it.
const patience = 90 * time.Second

// cluster is a running program.
type cluster struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  chan error
}

// start starts a cluster on a directory and waits for its line.
func start(t *testing.T, dir string, args ...string) *cluster {
	t.Helper()
	return startVia(t, dir, exec.Command(program, append([]string{"up", "--dir", dir}, args...)...))
}

// startVia starts a cluster by a command of the test's own.
func startVia(t *testing.T, dir string, cmd *exec.Cmd) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: dir, cmd: cmd, ended: make(chan error, 1)}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, &c.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	go func() { c.ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		c.awaitGone()
	})
	if got := c.firstLine(r); got != "ready\n" {
		t.Fatalf("first line on stdout = %q, want ready; stderr: %s", got, c.stderr.String())
	}
	return c
}

func (c *cluster) firstLine(r *os.File) string {
	c.t.Helper()
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(r).ReadString('\n')
		line <- text
	}()
	select {
	case text := <-line:
		return text
	case <-time.After(patience):
		c.t.Fatalf("not ready after %s; stderr: %s", patience, c.stderr.String())
		return ""
	}
}

func (c *cluster) kube() kubernetes.Interface {
	c.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		c.t.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// processes returns the command lines that name the cluster's directory, by
// their process id. The pattern is the directory of this test alone.
func (c *cluster) processes() map[int]string {
	found := map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(content), c.dir) {
			continue
		}
		var pid int
		for _, digit := range filepath.Base(filepath.Dir(file)) {
			pid = pid*10 + int(digit-'0')
		}
		found[pid] = strings.ReplaceAll(string(content), "\x00", " ")
	}
	return found
}

// component returns the process id of a component.
func (c *cluster) component(name string) int {
	c.t.Helper()
	for pid, line := range c.processes() {
		if strings.Contains(line, "component "+name) {
			return pid
		}
	}
	c.t.Fatalf("no process of component %s", name)
	return 0
}

// pid returns the process id of a component as the program tells it.
func (c *cluster) pid(name string) int {
	c.t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(read(c.t, filepath.Join(c.dir, name+".pid"))))
	if err != nil {
		c.t.Fatal(err)
	}
	return pid
}

// awaitGone fails the test if a process or a mount of the cluster is left.
func (c *cluster) awaitGone() {
	c.t.Helper()
	eventually(c.t, "no process is left", func() (bool, string) {
		left := c.processes()
		lines := make([]string, 0, len(left))
		for _, line := range left {
			lines = append(lines, line)
		}
		return len(left) == 0, strings.Join(lines, "\n")
	})
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), c.dir) {
		c.t.Errorf("a mount is left below %s (%v)", c.dir, err)
	}
}

// eventually waits for a condition, and says how things stood if it never held.
func eventually(t *testing.T, what string, holds func() (bool, string)) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		ok, state := holds()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %s until %s; last: %s", patience, what, state)
		}
	}
}
