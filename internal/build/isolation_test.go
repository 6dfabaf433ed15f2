package build_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-gitops/holdfast/internal/build"
)

// serveVariable makes the test program do one build for an Isolation.
const serveVariable = "HOLDFAST_TEST_SERVE_BUILD"

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) != "" {
		if err := build.Serve(os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// isolated builds as the controller does.
func isolated(ctx context.Context, i *build.Isolation, root string, timeout time.Duration) (build.Result, error) {
	remote := func(decrypted map[string][]byte) (build.Rendered, error) {
		return i.Render(ctx, root, at(""), build.Options{Decrypted: decrypted}, timeout)
	}
	return build.Build(root, at(""), build.Options{Remote: remote})
}

func isolation(t *testing.T) *build.Isolation {
	t.Setenv(serveVariable, "1")
	return build.NewIsolation(os.Args[0])
}

// silent returns the address of a host that takes connections and never answers, and tells of each.
func silent(t *testing.T) (string, <-chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	connections := make(chan net.Conn, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			connections <- c
		}
	}()
	return l.Addr().String(), connections
}

// A build in a process of its own renders what one in this process does, numbers included.
func TestIsolatedBuild(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(deploy)) }))
	defer server.Close()
	root := write(t, files{"kustomization.yaml": "resources: [" + server.URL + "/x.yaml, a.yaml]\nreplicas: [{name: web, count: 3}]\n", "a.yaml": cm("a")})
	want, err := build.Build(root, at(""), build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := isolated(t.Context(), isolation(t), root, time.Minute)
	if err != nil || !got.Remote || got.Digest != want.Digest || !slices.Equal(ids(got), ids(want)) {
		t.Fatalf("%v, remote %v, %v", ids(got), got.Remote, err)
	}
	if digest, err := build.Digest(got.Objects); err != nil || digest != want.Digest {
		t.Errorf("the objects changed on their way: %v", err)
	}
}

func TestIsolatedBuildFails(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	root := write(t, files{"kustomization.yaml": "resources: [" + server.URL + "/x.yaml]\n"})
	_, err := isolated(t.Context(), isolation(t), root, time.Minute)
	if err == nil || !strings.HasPrefix(err.Error(), "kustomize build failed: ") || strings.Contains(err.Error(), root) {
		t.Errorf("%v", err)
	}
}

// A host that does not answer held the lock of all builds, for ever.
func TestHostThatDoesNotAnswer(t *testing.T) {
	address, connections := silent(t)
	hanging := write(t, files{"kustomization.yaml": "resources: ['http://" + address + "/x.yaml']\n"})
	i := isolation(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := isolated(ctx, i, hanging, time.Hour)
		done <- err
	}()
	connection := <-connections
	defer connection.Close() // at the end: it would be closed once nobody held it
	if _, err := isolated(t.Context(), i, hanging, time.Minute); !errors.Is(err, build.ErrBusy) {
		t.Errorf("%v, want busy", err)
	}
	if got, err := isolated(t.Context(), i, write(t, files{"a.yaml": cm("a")}), time.Minute); err != nil || len(got.Objects) != 1 {
		t.Errorf("another build: %v, %v", ids(got), err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want cancelled", err)
	}
	var timeout *build.TimeoutError
	if _, err := isolated(t.Context(), i, hanging, 100*time.Millisecond); !errors.As(err, &timeout) {
		t.Errorf("%v, want a timeout", err)
	}
}
