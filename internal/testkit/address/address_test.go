package address_test

import (
	"net"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/testkit/address"
)

// Every address is free, new, and out of the range from which systems take ports for others.
func TestFree(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		got, err := address.Free()
		if err != nil {
			t.Fatal(err)
		}
		if seen[got] {
			t.Errorf("%s was given twice", got)
		}
		seen[got] = true
		listener, err := net.Listen("tcp", got)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		if port := listener.Addr().(*net.TCPAddr).Port; port >= 32768 {
			t.Errorf("port %d may be taken by a connection", port)
		}
	}
}
