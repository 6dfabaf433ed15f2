package integration

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// program builds holdfast into the clone's bin directory, once, so that the tests never run an old one.
var program = sync.OnceValues(func() (string, error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "integration", "holdfast")
	build := exec.Command("go", "build", "-o", path, "./cmd/holdfast")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build holdfast: %w\n%s", err, output)
	}
	return path, nil
})

// running is `holdfast run` as a process of its own, for one namespace.
type running struct {
	t       *testing.T
	command *exec.Cmd
	metrics string
	log     string
	done    chan struct{}
}

// startProcess starts `holdfast run` with more flags, waits until it answers, and kills it at the end of the test.
func startProcess(t *testing.T, namespace, kubeconfig string, flags ...string) *running {
	t.Helper()
	return startProcessIn(t, nil, namespace, kubeconfig, flags...)
}

// startProcessIn does the same with more variables in the environment.
func startProcessIn(t *testing.T, variables []string, namespace, kubeconfig string, flags ...string) *running {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	health := freeAddress(t)
	r := &running{t: t, metrics: freeAddress(t), log: filepath.Join(t.TempDir(), "log"), done: make(chan struct{})}
	r.command = exec.Command(path, append([]string{"run", "--watch-all-namespaces=false", "--requeue-dependency=1s",
		"--health-addr=" + health, "--metrics-addr=" + r.metrics,
		"--storage-path=" + t.TempDir(), "--storage-addr=127.0.0.1:0"}, flags...)...)
	r.command.Env = append(os.Environ(), "RUNTIME_NAMESPACE="+namespace, "KUBECONFIG="+kubeconfig,
		"TMPDIR="+t.TempDir()) // what a killed process leaves goes with the test
	r.command.Env = append(r.command.Env, variables...)
	log, err := os.Create(r.log)
	if err != nil {
		t.Fatal(err)
	}
	r.command.Stdout, r.command.Stderr = log, log
	if err := r.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		// How it ends after a kill does not matter.
		_ = r.command.Wait()
		_ = log.Close()
	}()
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			content, _ := os.ReadFile(r.log)
			t.Logf("the log of holdfast:\n%s", content[max(0, len(content)-4000):])
		}
	})
	url := "http://" + health + "/readyz"
	eventually(t, within, "holdfast answers", func(ctx context.Context) error {
		select {
		case <-r.done:
			content, _ := os.ReadFile(r.log)
			t.Fatalf("holdfast ended:\n%s", content)
		default:
		}
		return answers(ctx, url)
	})
	return r
}

// kill ends the process as kill -9 does, and waits until it is gone.
func (r *running) kill() {
	// It may have been killed before.
	_ = r.command.Process.Kill()
	<-r.done
}

// metric reads the value of a series; the labels have to be given as they are printed.
func (r *running) metric(ctx context.Context, series string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.metrics+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var content bytes.Buffer
	if _, err := content.ReadFrom(response.Body); err != nil {
		return 0, err
	}
	sum, found := 0.0, false
	for lines := bufio.NewScanner(&content); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), "} ")
		if ok && strings.HasPrefix(name, series) {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum, found = sum+number, true
		}
	}
	if !found {
		return 0, fmt.Errorf("there is no series %s", series)
	}
	return sum, nil
}
