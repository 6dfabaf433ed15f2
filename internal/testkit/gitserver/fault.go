package gitserver

import (
	"net/http"
	"strings"
	"time"
)

// Fault is what goes wrong with one request. The zero value is none.
type Fault struct {
	// Delay holds the request before anything else happens, or until the client goes away.
	Delay time.Duration
	// Status is answered instead of the repository's answer.
	Status int
	// CutAfter closes the connection after so many bytes of the answer.
	CutAfter int64
}

// SetFault puts a fault in front of the requests that f names; nil takes it away.
func (s *Server) SetFault(f func(*http.Request) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Requests is the number of requests so far for listing references and for fetching a pack.
func (s *Server) Requests() (listings, packs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests["refs"], s.requests["git-upload-pack"]
}

// IsPack tells whether a request asks for the objects of a repository.
func IsPack(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/git-upload-pack") }

func (s *Server) observe(r *http.Request) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]++
	if s.fault == nil {
		return Fault{}
	}
	return s.fault(r)
}

// apply does what the fault says; ok is false when the request is dealt with.
func (f Fault) apply(w http.ResponseWriter, r *http.Request) (_ http.ResponseWriter, ok bool) {
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return w, false
		}
	}
	if f.Status != 0 {
		http.Error(w, http.StatusText(f.Status), f.Status)
		return w, false
	}
	if f.CutAfter > 0 {
		return &cutWriter{ResponseWriter: w, left: f.CutAfter}, true
	}
	return w, true
}

// cutWriter lets a number of bytes through and then drops the connection.
type cutWriter struct {
	http.ResponseWriter
	left int64
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if int64(len(p)) <= c.left {
		c.left -= int64(len(p))
		return c.ResponseWriter.Write(p)
	}
	// The write error doesn't matter: the connection is dropped in the next line.
	_, _ = c.ResponseWriter.Write(p[:c.left])
	if flusher, ok := c.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
	panic(http.ErrAbortHandler)
}
