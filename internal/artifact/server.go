package artifact

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"strings"
	"time"
)

// shutdownGrace is how long downloads may go on after the server was told to end.
const shutdownGrace = 10 * time.Second

// Server serves the artifacts of a store over HTTP. It is a Runnable of a controller-runtime manager.
type Server struct {
	store    *Store
	listener net.Listener
}

// Listen takes the address, so that the port is known before anything is published, and tells the store which host its
// URLs carry: advertised, or the listening address when that is empty. Connections are answered once Start runs.
func Listen(store *Store, addr, advertised string) (*Server, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for artifact requests: %w; set --storage-addr to a free address", err)
	}
	if advertised == "" {
		advertised = reachable(listener.Addr().(*net.TCPAddr))
	}
	store.Advertise(advertised)
	return &Server{store: store, listener: listener}, nil
}

// Start serves until ctx ends, and then lets downloads finish.
func (s *Server) Start(ctx context.Context) error {
	server := &http.Server{
		Handler:           s.store.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(s.listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve artifacts: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		// Downloads that outlast the grace are cut; their readers see it and try again.
		return errors.Join(fmt.Errorf("end artifact server: %w", err), server.Close())
	}
	return nil
}

// NeedLeaderElection is false: an artifact may be read from any process that has it.
func (s *Server) NeedLeaderElection() bool { return false }

// Addr is the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close stops listening, for a server that is never started.
func (s *Server) Close() error { return s.listener.Close() }

// Handler answers requests for artifacts. It lists nothing, and serves neither unfinished files nor anything that is
// not in the store.
func (s *Store) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are served", http.StatusMethodNotAllowed)
			return
		}
		name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
		if !strings.HasSuffix(name, extension) || strings.Contains(name, "/.") {
			http.NotFound(w, r)
			return
		}
		f, err := s.root.Open(name)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		defer f.Close() // nothing was written, so there is nothing that closing could lose
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/gzip")
		http.ServeContent(w, r, path.Base(name), info.ModTime(), f)
	})
}

// reachable is the host under which others reach a listening address. One that listens everywhere is reached by the
// first address of the machine that is not loopback.
func reachable(addr *net.TCPAddr) string {
	if !addr.IP.IsUnspecified() {
		return addr.String()
	}
	host := net.IPv4(127, 0, 0, 1)
	// Without a list of addresses loopback is still right for a cluster on the same machine.
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			host = n.IP
			break
		}
	}
	return (&net.TCPAddr{IP: host, Port: addr.Port}).String()
}
