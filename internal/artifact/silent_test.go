package artifact

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
)

// A server that does not answer is asked once, and then left alone for a while: everybody who needs something from it would
// wait in turn, and with them those who need nothing from it.
func TestSilentServerIsLeftAlone(t *testing.T) {
	var asked atomic.Int32
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		<-release
	}))
	defer server.Close()
	defer close(release)
	reader := NewReader(ReaderOptions{Timeout: 50 * time.Millisecond})
	artifact := &meta.Artifact{URL: server.URL + "/a.tar.gz",
		Digest: "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
	var transient *TransientError
	for range 3 {
		if err := reader.Fetch(t.Context(), artifact, t.TempDir()+"/artifact"); !errors.As(err, &transient) {
			t.Fatalf("fetch from a silent server: %v", err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the server was asked %d times", n)
	}
	if reader.silent.has(server.Listener.Addr().String(), time.Now().Add(silence+time.Second)) {
		t.Error("the server is left alone for good")
	}
}
