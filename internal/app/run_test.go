package app

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
)

func TestATakenPortNamesItsFlag(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = net.Listen("tcp", taken.Addr().String())
	for flag, options := range map[string]Options{
		"--metrics-addr": {MetricsAddr: taken.Addr().String()},
		"--health-addr":  {HealthAddr: taken.Addr().String()},
	} {
		if got := portHint(fmt.Errorf("failed to create listener: %w", err), options); !strings.Contains(got, flag) {
			t.Errorf("%q does not name %s", got, flag)
		}
	}
	if got := portHint(errors.New("other"), Options{}); got != "" {
		t.Errorf("a hint about no port: %q", got)
	}
}
