package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func TestClassifyLogLines(t *testing.T) {
	for line, want := range map[string]struct {
		text  string
		grave severity
	}{
		`E1130 13:28:11.842203   17260 kubelet.go:2646] "Skipping" err="x"`:       {`"Skipping" err="x"`, severityError},
		`F1130 13:28:11.842203       1 server.go:1] no luck`:                      {"no luck", severityFatal},
		`I1130 13:28:11.842203   17260 kubelet.go:1] fine`:                        {"fine", severityOther},
		`{"level":"fatal","msg":"can't write","error":"no space left on device"}`: {"can't write: no space left on device", severityFatal},
		`{"level":"error","msg":"slow"}`:                                          {"slow", severityError},
		`{"level":"warn","msg":"slow"}`:                                           {"slow", severityOther},
		"panic: runtime error":                                                    {"panic: runtime error", severityFatal},
		"devcluster: start etcd: no":                                              {"start etcd: no", severityFatal},
		"{ no json":                                                               {"{ no json", severityOther},
	} {
		if text, grave := classify(line); text != want.text || grave != want.grave {
			t.Errorf("classify(%q) = %q, %d; want %q, %d", line, text, grave, want.text, want.grave)
		}
	}
}

func TestJournalPicksTheLineThatExplains(t *testing.T) {
	j, err := newJournal(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	if got := j.reason(); got != "it wrote nothing" {
		t.Errorf("reason of an empty log = %q", got)
	}
	// In pieces, as a pipe delivers them.
	for _, piece := range []string{"hello\nE1130 13:28:11.8 1 a.go:1] fir", "st\n", "devcluster: the cause\npanic: later\n", "goroutine 1\n"} {
		if _, err := j.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if got := j.reason(); got != "the cause" {
		t.Errorf("reason = %q, want the first fatal line", got)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(j.path); err != nil || !strings.HasSuffix(string(content), "goroutine 1\n") {
		t.Errorf("log file = %q, %v", content, err)
	}
}

func TestJournalOnAFullDiskStillKnowsTheReason(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no /dev/full here: %v", err)
	}
	j := &journal{path: "/dev/full", out: full}
	if _, err := j.Write([]byte("devcluster: can't write the data\n")); err != nil {
		t.Errorf("the component would end because of its log: %v", err)
	}
	if got := j.reason(); !strings.Contains(got, "can't write the data") || !strings.Contains(got, "no space left") {
		t.Errorf("reason = %q, want the line and that the disk is full", got)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFailureIsOneLineThatNamesComponentLogAndReason(t *testing.T) {
	j, err := newJournal(filepath.Join(t.TempDir(), "etcd.log"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(j, "devcluster: no space left on device")
	got := failure(&process{name: "etcd", journal: j, err: errors.New("exit status 1")}).Error()
	for _, part := range []string{"etcd", j.path, "no space left on device", "exit status 1"} {
		if !strings.Contains(got, part) || strings.Contains(got, "\n") {
			t.Errorf("failure = %q, want one line with %q", got, part)
		}
	}
}

func TestListen(t *testing.T) {
	remembered := filepath.Join(t.TempDir(), "port")
	first, err := listen(0, remembered)
	if err != nil {
		t.Fatalf("listen on any port: %v", err)
	}
	port := portOf(first)
	if _, err := listen(port, remembered); err == nil || !strings.Contains(err.Error(), "--port") {
		t.Errorf("a busy port: error %v, want one that names --port", err)
	}
	if err := os.WriteFile(remembered, []byte(strconv.Itoa(port)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := listen(0, remembered)
	if err != nil || portOf(other) == port {
		t.Fatalf("with the last port busy: error %v, want another port", err)
	}
	if err := errors.Join(first.Close(), other.Close()); err != nil {
		t.Fatal(err)
	}
	again, err := listen(0, remembered)
	if err != nil || portOf(again) != port {
		t.Fatalf("with the last port free: error %v, want that port", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReadPortRejectsNonsense(t *testing.T) {
	for _, content := range []string{"", "x", "0", "-1", "65536"} {
		path := filepath.Join(t.TempDir(), "port")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if port, ok := readPort(path); ok {
			t.Errorf("%q was read as port %d", content, port)
		}
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inTheWay := t.TempDir()
	if err := os.WriteFile(filepath.Join(inTheWay, "etcd"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"a file": file, "below a file": filepath.Join(file, "x"), "proc": "/proc/devcluster", "file in the way": inTheWay} {
		_, _, err := open(dir)
		if err == nil || !strings.Contains(err.Error(), "--dir") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line that names --dir", name, err)
		}
	}
}

func TestLockIsExclusive(t *testing.T) {
	dir := t.TempDir()
	_, lock, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, _, err = open(dir)
	if err == nil || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("error %v, want one that names the process", err)
	}
	if waited := time.Since(start); waited < lockPatience {
		t.Errorf("gave up after %v, before the processes of a killed cluster could be gone", waited)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	_, again, err := open(dir)
	if err != nil {
		t.Fatalf("open after the first let go: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCredentialsOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	l, lock, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	tokens := map[string]bool{}
	for _, port := range []int{1234, 5678} {
		if err := writeCredentials(l, port); err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("https://127.0.0.1:%d", port); config.Host != want {
			t.Errorf("server = %s, want %s", config.Host, want)
		}
		tokens[config.BearerToken] = true
	}
	if len(tokens) != 1 || tokens[""] {
		t.Errorf("the restart has another token than the start, or none")
	}
	info, err := os.Stat(l.kubeconfig())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig %v, %v: want it readable by its owner alone", info, err)
	}
}
