package supervisor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// listen binds the port of the API server: the one asked for, or else the one
// of the last run if it is free, or else any.
func listen(asked int, remembered string) (*net.TCPListener, error) {
	if asked != 0 {
		l, err := bind(asked)
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("port %d of 127.0.0.1 is in use: stop what uses it, choose another one with --port, or leave out --port to have a free one chosen", asked)
		}
		if err != nil {
			return nil, fmt.Errorf("can't use port %d: %w: choose another one with --port", asked, err)
		}
		return l, nil
	}
	if last, ok := readPort(remembered); ok {
		// Whoever has it now, any other port will do as well.
		if l, err := bind(last); err == nil {
			return l, nil
		}
	}
	l, err := bind(0)
	if err != nil {
		return nil, fmt.Errorf("find a free port on 127.0.0.1: %w: end programs that hold many connections", err)
	}
	return l, nil
}

// socketOf returns the socket of a listener, to be passed on, and closes the
// listener.
func socketOf(l *net.TCPListener) (*os.File, error) {
	socket, err := l.File()
	if err = errors.Join(err, l.Close()); err != nil {
		return nil, fmt.Errorf("pass the port on: %w", err)
	}
	return socket, nil
}

func bind(port int) (*net.TCPListener, error) {
	return net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
}

func portOf(l *net.TCPListener) int { return l.Addr().(*net.TCPAddr).Port }

func readPort(path string) (int, bool) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(content)))
	return port, err == nil && port > 0 && port < 1<<16
}
