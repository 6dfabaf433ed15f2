package git_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/armon/go-socks5"

	"github.com/holdfast-gitops/holdfast/internal/source/git"
	"github.com/holdfast-gitops/holdfast/internal/testkit/gitserver"
)

func serveSSH(t *testing.T) (*gitserver.Server, *gitserver.SSHD) {
	t.Helper()
	s := serve(t, nil)
	d, err := s.StartSSH(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, d
}

// TestSSH: what identity and known_hosts allow, and nothing else does.
func TestSSH(t *testing.T) {
	s, d := serveSSH(t)
	sha := commit(t, s, "main", map[string]string{"a.yaml": "1"})
	_, other := serveSSH(t)
	encrypted, err := d.Encrypted("open sesame")
	if err != nil {
		t.Fatal(err)
	}
	// What a person has at home must play no part.
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("SSH_KNOWN_HOSTS", filepath.Join(home, "known_hosts"))
	if err := os.WriteFile(filepath.Join(home, "known_hosts"), d.KnownHosts, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		auth       git.Auth
		wantReason git.Reason
		wantErr    error
	}{
		"key":               {auth: git.Auth{Identity: d.Identity, KnownHosts: d.KnownHosts}},
		"encrypted key":     {auth: git.Auth{Identity: encrypted, Password: "open sesame", KnownHosts: d.KnownHosts}},
		"among others":      {auth: git.Auth{Identity: d.Identity, KnownHosts: append(rsaHost(), d.KnownHosts...)}},
		"other client":      {git.Auth{Identity: other.Identity, KnownHosts: d.KnownHosts}, git.ReasonAuthenticationFailed, nil},
		"unknown host":      {git.Auth{Identity: d.Identity, KnownHosts: other.KnownHosts}, git.ReasonAuthenticationFailed, git.ErrHostUnknown},
		"host's key is new": {git.Auth{Identity: d.Identity, KnownHosts: renamed(other, d)}, git.ReasonAuthenticationFailed, git.ErrHostMismatch},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := remote(t, d.URL(repo), tt.auth, nil)
			head, err := r.Resolve(t.Context(), git.Reference{Branch: "main"})
			if tt.wantReason == "" {
				if err != nil || head.Commit != sha {
					t.Fatalf("resolved to %s, %v; want %s", head.Commit, err, sha)
				}
				if _, paths := fetch(t, r, git.Reference{Branch: "main"}); len(paths) != 1 {
					t.Errorf("files %v, want one", paths)
				}
				return
			}
			var failure *git.Error
			if !errors.As(err, &failure) || failure.Reason != tt.wantReason || failure.Advice == "" {
				t.Fatalf("error %v, want a %s with advice", err, tt.wantReason)
			}
			if tt.wantErr != nil && !errors.Is(err, tt.wantErr) {
				t.Errorf("error %v, want %v", err, tt.wantErr)
			}
		})
	}
}

// rsaHost is a line for another host whose only key is of a kind that the client would rather use.
func rsaHost() []byte {
	return []byte("github.com ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQCj7ndNxQowgcQnjshcLrqPEiiphnt+VTTvDP6mHBL9j1aNUkY4Ue1gvwnGLVlOhGeYrnZaMgRK6+PKCUXaDbC7qtbW8gIkhL7aGCsOr/C56SJMy/BCZfxd1nWzAOxSDPgVsmerOBYfNqltV9/hWCqBywINIR+5dIg6JTJ72pcEpEjcYgXkE2YEFXV1JHnsKgbLWNlhScqb2UmyRkQyytRLtL+38TGxkxCflmO+5Z8CSSNY7GidjMIZ7Q4zMjA2n1nGrlTDkzwDCsw+wqFPGQA179cnfGWOWRVruj16z6XyvxvjJwbz0wQZ75XK5tKSb7FNyeIEs4TT4jk+S4dhPeAUC5y+bDYirYgM4GC7uEnztnZyaVWQ7B381AK4Qdrwt51ZqExKbQpTUNn+EjqoTwvqNj4kqx5QUCI0ThS/YkOxJCXmPUWZbhjpCg56i+2aB6CmK2JGhn57K5mj0MNdBXA4/WnwH6XoPWJzK5Nyu2zB3nAZp+S5hpQs+p1vN1/wsjk=\n")
}

// renamed says that the key of one server is that of another.
func renamed(from, to *gitserver.SSHD) []byte {
	_, key, _ := strings.Cut(string(from.KnownHosts), " ")
	host, _, _ := strings.Cut(string(to.KnownHosts), " ")
	return []byte(host + " " + key)
}

// TestSSHCredentialsThatCanNotWork are told before anybody is asked, without a word of the key.
func TestSSHCredentialsThatCanNotWork(t *testing.T) {
	_, d := serveSSH(t)
	encrypted, err := d.Encrypted("open sesame")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]git.Auth{
		"nothing":          {},
		"no known hosts":   {Identity: d.Identity},
		"no identity":      {KnownHosts: d.KnownHosts},
		"not a key":        {Identity: []byte("s3cr3t"), KnownHosts: d.KnownHosts},
		"no passphrase":    {Identity: encrypted, KnownHosts: d.KnownHosts},
		"wrong passphrase": {Identity: encrypted, Password: "gu3ss", KnownHosts: d.KnownHosts},
		"rubbish hosts":    {Identity: d.Identity, KnownHosts: []byte("s3cr3t")},
		"HTTP proxy":       {Identity: d.Identity, KnownHosts: d.KnownHosts, Proxy: &url.URL{Scheme: "http", Host: "proxy", User: url.UserPassword("user", "s3cr3t")}},
	}
	for name, auth := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := git.NewRemote(d.URL(repo), auth, t.TempDir())
			wantReason(t, err, git.ReasonAuthenticationFailed)
		})
	}
}

func TestSSHThroughAProxy(t *testing.T) {
	s, d := serveSSH(t)
	commit(t, s, "main", map[string]string{"a.yaml": "1"})
	proxy, err := socks5.New(&socks5.Config{Credentials: socks5.StaticCredentials{"user": "s3cr3t"}})
	if err != nil {
		t.Fatal(err)
	}
	counted := listen(t)
	go func() { _ = proxy.Serve(counted) }() // it ends with the listener
	auth := git.Auth{Identity: d.Identity, KnownHosts: d.KnownHosts}
	auth.Proxy = &url.URL{Scheme: "socks5", Host: counted.Addr().String(), User: url.UserPassword("user", "s3cr3t")}
	if _, paths := fetch(t, remote(t, d.URL(repo), auth, nil), git.Reference{Branch: "main"}); len(paths) != 1 {
		t.Errorf("files %v, want one", paths)
	}
	if counted.accepted.Load() == 0 {
		t.Error("the proxy was not used")
	}
	auth.Proxy.User = url.UserPassword("user", "gu3ss")
	_, err = remote(t, d.URL(repo), auth, nil).Resolve(t.Context(), git.Reference{Branch: "main"})
	wantReason(t, err, git.ReasonOperationFailed)
}

// counting counts the connections of a listener.
type counting struct {
	net.Listener
	accepted atomic.Int32
}

func (c *counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.accepted.Add(1)
	}
	return conn, err
}

func listen(t *testing.T) *counting {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &counting{Listener: l}
}

// TestSSHServerThatSaysNothing: neither a server that keeps silent nor one that stops in the middle holds a worker longer than the
// context allows.
func TestSSHServerThatSaysNothing(t *testing.T) {
	_, d := serveSSH(t)
	l := listen(t)
	closed := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			closed <- err
			return
		}
		_, err = io.Copy(io.Discard, conn)
		closed <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	known := strings.Replace(string(d.KnownHosts), port(d.Addr()), port(l.Addr().String()), 1)
	r := remote(t, "ssh://"+l.Addr().String()+"/"+repo, git.Auth{Identity: d.Identity, KnownHosts: []byte(known)}, nil)
	_, err := r.Resolve(ctx, git.Reference{Branch: "main"})
	if !errors.Is(err, git.ErrTimeout) {
		t.Errorf("error %v, want a timeout", err)
	}
	<-closed // the connection is gone too
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}
