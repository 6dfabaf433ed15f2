// Package address finds addresses for programs that a test starts and that have to be told where to listen.
package address

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports are below those that systems hand out for ports of 0 and for connections (from 32768 on Linux, from 49152 elsewhere), so
// that nothing else gets one between the look and the use.
const (
	lowest = 20000
	count  = 12000
	tries  = 1000
)

var (
	mu sync.Mutex
	// given are the ports that this process was given before; a program that was restarted may want its own again.
	given = map[int]bool{}
)

// Free returns a loopback address that nothing listens on, and that it has not returned before.
func Free() (string, error) {
	mu.Lock()
	defer mu.Unlock()
	var last error
	for range tries {
		port := lowest + rand.IntN(count) //nolint:gosec // any port will do
		if given[port] {
			continue
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			last = err
			continue
		}
		given[port] = true
		return listener.Addr().String(), listener.Close()
	}
	return "", fmt.Errorf("find a free port from %d on: %w", lowest, errors.Join(last, errors.New("none of those tried is free")))
}
