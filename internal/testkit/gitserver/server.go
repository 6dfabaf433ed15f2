package gitserver

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Server is a Git server. The exported fields are set before Start.
type Server struct {
	// Addr is the address to listen on; a free port on loopback when empty.
	Addr string
	// Username and Password are asked for on every request when Username is set.
	Username, Password string
	// BearerToken is accepted as authorization, and asked for, when set.
	BearerToken string
	// TLS makes the server speak HTTPS with a certificate of its own; CA returns what clients must trust.
	TLS bool
	// ClientCertificate makes a TLS server ask for a certificate that its own authority signed, as ClientPair does.
	ClientCertificate bool

	dir      string
	git      string
	listener net.Listener
	http     *http.Server
	caPEM    []byte
	pair     tls.Certificate
	served   chan struct{}

	mu       sync.Mutex
	fault    func(*http.Request) Fault
	requests map[string]int

	// repoMu serialises writers, so that each commit builds on the one before.
	repoMu sync.Mutex
}

// New returns a server for the repositories under dir.
func New(dir string) *Server {
	return &Server{dir: dir, requests: map[string]int{}}
}

// Start listens and serves until Close.
func (s *Server) Start() error {
	git, err := exec.LookPath("git")
	if err != nil {
		return fmt.Errorf("find git: %w; install git", err)
	}
	s.git = git
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return fmt.Errorf("resolve repository directory %s: %w", s.dir, err)
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return fmt.Errorf("create repository directory: %w", err)
	}
	if err := s.listen(); err != nil {
		return err
	}
	s.http = &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	s.served = make(chan struct{})
	go func() {
		defer close(s.served)
		// Serve always ends with an error; after Close it is ErrServerClosed and says nothing.
		_ = s.http.Serve(s.listener)
	}()
	return nil
}

func (s *Server) listen() error {
	addr := s.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	s.listener = listener
	if !s.TLS {
		return nil
	}
	certificate, caPEM, err := selfSigned()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s.caPEM, s.pair = caPEM, certificate
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	if s.ClientCertificate {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(caPEM)
	}
	s.listener = tls.NewListener(listener, config)
	return nil
}

// ClientPair is a certificate and its key that a server with ClientCertificate accepts, as PEM.
func (s *Server) ClientPair() (certificate, key []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(s.pair.PrivateKey)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the client's key: %w", err)
	}
	return s.caPEM, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// Close ends the server at once, with the requests that are on their way.
func (s *Server) Close() error {
	if s.http == nil {
		return nil
	}
	err := s.http.Close()
	<-s.served
	return err
}

// Shutdown ends the server after the requests that are on their way.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.http == nil {
		return nil
	}
	return s.http.Shutdown(ctx)
}

// CA is the certificate that clients of a TLS server must trust, as PEM.
func (s *Server) CA() []byte { return s.caPEM }

// URL is the address of a repository, without credentials.
func (s *Server) URL(repo string) string {
	scheme := "http"
	if s.TLS {
		scheme = "https"
	}
	u := url.URL{Scheme: scheme, Host: s.listener.Addr().String(), Path: "/" + repo}
	return u.String()
}

func (s *Server) handler() http.Handler {
	backend := &cgi.Handler{
		Path: s.git,
		Args: []string{"http-backend"},
		Dir:  s.dir,
		Env:  append(gitEnv(s.dir), "GIT_PROJECT_ROOT="+s.dir, "GIT_HTTP_EXPORT_ALL=1"),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault := s.observe(r)
		w, ok := fault.apply(w, r)
		if !ok {
			return
		}
		if !s.authorized(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "authorization needed", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	})
}

func (s *Server) authorized(r *http.Request) bool {
	if s.Username == "" && s.BearerToken == "" {
		return true
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && s.BearerToken != "" {
		return same(token, s.BearerToken)
	}
	username, password, ok := r.BasicAuth()
	return ok && s.Username != "" && same(username, s.Username) && same(password, s.Password)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
