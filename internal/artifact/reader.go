package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
)

// The bounds of a Reader that sets none.
const (
	defaultMaxSize     = 1 << 30
	defaultMaxUnpacked = 4 << 30
	defaultTimeout     = time.Minute
)

// ReaderOptions are the settings of a Reader. The zero value is usable.
type ReaderOptions struct {
	// Host replaces the host, and port, of artifact URLs.
	Host string
	// WatcherHost does so for URLs of Flux's source-watcher, whose host begins with that name.
	WatcherHost string
	// Timeout bounds one Fetch.
	Timeout time.Duration
	// MaxSize bounds the size of an archive, and MaxUnpacked that of what is in it.
	MaxSize, MaxUnpacked int64
	// TempDir is where a download is kept until it is verified; the system's directory when empty.
	TempDir string
	// Transport sends the requests; one like the default transport when nil.
	Transport http.RoundTripper
}

// Reader fetches artifacts. It may be used by several goroutines.
type Reader struct {
	options ReaderOptions
	client  *http.Client
	silent  silent
}

// NewReader returns a reader.
func NewReader(o ReaderOptions) *Reader {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.MaxSize <= 0 {
		o.MaxSize = defaultMaxSize
	}
	if o.MaxUnpacked <= 0 {
		o.MaxUnpacked = defaultMaxUnpacked
	}
	transport := o.Transport
	if transport == nil {
		transport = patient()
	}
	return &Reader{options: o, client: &http.Client{Transport: transport}}
}

// A server that does not answer must not hold up those who wait for others: the limits on its first word are short, that
// on the whole of an artifact is not.
const (
	dialTimeout   = 5 * time.Second
	answerTimeout = 10 * time.Second
	// silence is how long nobody asks a server again that did not answer.
	silence = 10 * time.Second
)

func patient() http.RoundTripper {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the standard library's own
	transport.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	transport.ResponseHeaderTimeout = answerTimeout
	return transport
}

// silent remembers the hosts that did not answer, and until when they are left alone.
type silent struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (s *silent) note(host string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = map[string]time.Time{}
	}
	s.until[host] = until
}

func (s *silent) has(host string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.until[host]
	if ok && !now.Before(until) {
		delete(s.until, host)
		return false
	}
	return ok
}

// errSilent says why a server was not asked.
var errSilent = errors.New("its server did not answer a moment ago")

// Fetch downloads an artifact, proves that it is the one described, and unpacks it into dir, which is created when it
// does not exist and must be empty. After an error dir holds nothing.
//
// It tries once. The caller decides by the error whether and when to try again: ErrNotFound and *TransientError may
// pass, *DigestMismatch passes when the source publishes again, *TruncatedError, *SizeMismatch and *EntryError need
// another artifact.
func (r *Reader) Fetch(ctx context.Context, a *meta.Artifact, dir string) error {
	if a == nil {
		return fmt.Errorf("fetch artifact: the source has none: %w", ErrNotFound)
	}
	digest, err := newDigester(a.Digest)
	if err != nil {
		return fmt.Errorf("fetch artifact %s: %w", a.URL, err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	download, err := os.CreateTemp(r.options.TempDir, "artifact-*"+extension)
	if err != nil {
		return fmt.Errorf("fetch artifact %s: %w", a.URL, err)
	}
	defer discard(download)
	if err := r.download(ctx, a, download, digest); err != nil {
		return err
	}
	if _, err := download.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read downloaded artifact: %w", err)
	}
	return unpack(ctx, download, dir, a.Digest, r.options.MaxUnpacked)
}

// discard removes a temporary file. What is left when that fails is rubbish in a temporary directory and no more.
func discard(f *os.File) {
	_ = f.Close()
	_ = os.Remove(f.Name())
}

func (r *Reader) download(ctx context.Context, a *meta.Artifact, to io.Writer, digest *digester) error {
	address, err := r.address(a.URL)
	if err != nil {
		return err
	}
	body, err := r.request(ctx, address)
	if err != nil {
		return err
	}
	defer body.Close() // all that matters was read, and its digest is checked
	n, err := io.Copy(io.MultiWriter(to, digest), io.LimitReader(body, r.options.MaxSize+1))
	if err != nil {
		return &TransientError{URL: address, Err: err}
	}
	if n > r.options.MaxSize {
		return &SizeMismatch{Digest: a.Digest, Want: r.options.MaxSize, Got: n}
	}
	if err := digest.verify(); err != nil {
		return fmt.Errorf("fetch artifact %s: %w", address, err)
	}
	if a.Size != nil && *a.Size != n {
		return &SizeMismatch{Digest: a.Digest, Want: *a.Size, Got: n}
	}
	return nil
}

func (r *Reader) address(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", fmt.Errorf("fetch artifact: %q is not an http or https URL; check the status of the source", raw)
	}
	host := r.options.Host
	if strings.HasPrefix(u.Host, "source-watcher") {
		host = r.options.WatcherHost
	}
	if host != "" {
		u.Host = host
	}
	return u.String(), nil
}

func (r *Reader) request(ctx context.Context, address string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("fetch artifact %s: %w", address, err)
	}
	// Without this, the transport would ask for compression and unpack the archive on the way.
	request.Header.Set("Accept-Encoding", "identity")
	if r.silent.has(request.URL.Host, time.Now()) {
		return nil, &TransientError{URL: address, Err: errSilent}
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, r.unanswered(request.URL.Host, address, err)
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	// The body of a refusal is not used.
	_ = response.Body.Close()
	switch code := response.StatusCode; {
	case code == http.StatusNotFound || code == http.StatusGone:
		return nil, fmt.Errorf("fetch artifact %s: %w", address, ErrNotFound)
	case code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout:
		return nil, &TransientError{URL: address, Err: fmt.Errorf("the server answered %s", response.Status)}
	default:
		return nil, fmt.Errorf("fetch artifact %s: the server answered %s; check that the source controller is reachable", address, response.Status)
	}
}

// unanswered is the error of a request that got no answer. A host that kept silent is remembered.
func (r *Reader) unanswered(host, address string, err error) error {
	if timeout := (net.Error)(nil); errors.As(err, &timeout) && timeout.Timeout() {
		r.silent.note(host, time.Now().Add(silence))
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // the URL is named once
	}
	return &TransientError{URL: address, Err: err}
}
