package test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEndsWithoutATrace(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *cluster){
		"SIGTERM":       func(t *testing.T, c *cluster) { send(t, c.cmd.Process.Pid, syscall.SIGTERM) },
		"SIGINT":        func(t *testing.T, c *cluster) { send(t, c.cmd.Process.Pid, syscall.SIGINT) },
		"killed itself": func(t *testing.T, c *cluster) { send(t, c.cmd.Process.Pid, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, t.TempDir())
			end(t, c)
			err := <-c.ended
			if name != "killed itself" && err != nil {
				t.Errorf("ended with %v: %s", err, c.stderr.String())
			}
			c.awaitGone()
		})
	}
}

func TestEndsWithItsParent(t *testing.T) {
	dir := t.TempDir()
	// The second command keeps the shell from becoming the program.
	c := startVia(t, dir, exec.Command("sh", "-c", `"$0" up --dir "$1"; true`, program, dir))
	if n := len(c.processes()); n < 7 {
		t.Fatalf("%d processes, want those of the shell, the supervisor and 5 components", n)
	}
	send(t, c.cmd.Process.Pid, syscall.SIGKILL)
	c.awaitGone()
}

func TestComponentThatDies(t *testing.T) {
	c := start(t, t.TempDir())
	send(t, c.component("scheduler"), syscall.SIGKILL)
	if err := <-c.ended; err == nil {
		t.Error("ended well, want an error")
	}
	got := c.stderr.String()
	for _, part := range []string{"scheduler", filepath.Join(c.dir, "scheduler.log")} {
		if !strings.Contains(got, part) || strings.Count(got, "\n") != 1 {
			t.Errorf("stderr = %q, want one line with %q", got, part)
		}
	}
	c.awaitGone()
}

// A killed API server is started again where that is asked for, on its port,
// and the rest of the cluster finds it.
func TestAPIServerThatIsKilled(t *testing.T) {
	ctx := context.Background()
	c := start(t, t.TempDir(), "--restart-apiserver", "--apiserver-arg=--min-request-timeout=30")
	if line := c.processes()[c.pid("apiserver")]; !strings.Contains(line, "component apiserver") || !strings.Contains(line, "--min-request-timeout=30") {
		t.Errorf("the API server is %q", line)
	}
	for range 2 {
		before := c.pid("apiserver")
		send(t, before, syscall.SIGKILL)
		eventually(t, "another API server runs", func() (bool, string) { return c.pid("apiserver") != before, "none" })
		eventually(t, "it answers", func() (bool, string) {
			_, err := c.kube().Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
			return err == nil, fmt.Sprint(err)
		})
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "after"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "any"}}}}
	eventually(t, "a pod is accepted", func() (bool, string) {
		_, err := c.kube().CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		return err == nil, fmt.Sprint(err)
	})
	eventually(t, "it runs", func() (bool, string) {
		got, err := c.kube().CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil && got.Status.Phase == v1.PodRunning, fmt.Sprint(err)
	})
}

func TestRestartContinues(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	c := start(t, dir)
	object := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	if _, err := c.kube().CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before := read(t, filepath.Join(dir, "kubeconfig"))
	// The hard way: a killed cluster keeps its data and frees its directory.
	send(t, c.cmd.Process.Pid, syscall.SIGKILL)
	<-c.ended
	c = start(t, dir)
	if after := read(t, filepath.Join(dir, "kubeconfig")); after != before {
		t.Errorf("the kubeconfig changed from\n%s\nto\n%s", before, after)
	}
	if _, err := c.kube().CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("object of before the restart: %v", err)
	}
}

func TestRefusesInOneLine(t *testing.T) {
	busy, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	logInTheWay := t.TempDir()
	if err := os.Mkdir(filepath.Join(logInTheWay, "etcd.log"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"busy port":      {[]string{"--dir", t.TempDir(), "--port", strconv.Itoa(busy.Addr().(*net.TCPAddr).Port)}, "in use"},
		"missing port":   {[]string{"--dir", t.TempDir(), "--port"}, "--help"},
		"file as dir":    {[]string{"--dir", file}, file},
		"unwritable dir": {[]string{"--dir", "/proc/devcluster"}, "/proc/devcluster"},
		"unusable log":   {[]string{"--dir", logInTheWay}, "etcd.log"},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			cmd := exec.Command(program, append([]string{"up"}, test.args...)...)
			cmd.Stderr = &stderr
			if err := cmd.Run(); err == nil {
				t.Error("it ran, want an error")
			}
			if got := stderr.String(); !strings.Contains(got, test.want) || strings.Count(got, "\n") != 1 {
				t.Errorf("stderr = %q, want one line with %q", got, test.want)
			}
		})
	}
}

func TestTwoBesideEachOther(t *testing.T) {
	one := start(t, t.TempDir())
	var stderr bytes.Buffer
	again := exec.Command(program, "up", "--dir", one.dir)
	again.Stderr = &stderr
	if err := again.Run(); err == nil || !strings.Contains(stderr.String(), strconv.Itoa(one.cmd.Process.Pid)) {
		t.Errorf("a second one on the same directory: %v, %q; want an error that names the first", err, stderr.String())
	}
	two := start(t, t.TempDir())
	ctx := context.Background()
	object := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "only-in-one"}}
	if _, err := one.kube().CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := two.kube().CoreV1().Namespaces().Get(ctx, object.Name, metav1.GetOptions{}); err == nil {
		t.Error("an object of the one cluster is in the other")
	}
}

func send(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
