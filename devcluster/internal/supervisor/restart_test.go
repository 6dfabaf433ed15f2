package supervisor

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"testing"

	"github.com/holdfast-gitops/holdfast/devcluster/internal/contract"
)

func TestOnlyAKilledAPIServerMayRestart(t *testing.T) {
	killed := exec.Command("sh", "-c", "kill -9 $$").Run()
	failed := exec.Command("sh", "-c", "exit 1").Run()
	for name, test := range map[string]struct {
		restart   bool
		component string
		err       error
		want      bool
	}{
		"killed":               {true, contract.APIServer, killed, true},
		"ended by itself":      {true, contract.APIServer, failed, false},
		"ended well":           {true, contract.APIServer, nil, false},
		"not asked for":        {false, contract.APIServer, killed, false},
		"another was killed":   {true, contract.Scheduler, killed, false},
		"etcd, whose port was": {true, contract.Etcd, killed, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &processes{options: Options{RestartAPIServer: test.restart}}
			if got := p.mayRestart(&process{name: test.component, err: test.err}); got != test.want {
				t.Errorf("mayRestart = %t, want %t", got, test.want)
			}
		})
	}
}

func TestBindAgainWaitsForThePort(t *testing.T) {
	busy, err := bind(0)
	if err != nil {
		t.Fatal(err)
	}
	port := portOf(busy)
	got := make(chan *net.TCPListener, 1)
	go func() {
		again, err := bindAgain(context.Background(), port)
		if err != nil {
			t.Error(err)
		}
		got <- again
	}()
	if err := busy.Close(); err != nil {
		t.Fatal(err)
	}
	again := <-got
	if again == nil || portOf(again) != port {
		t.Fatalf("got %v, want port %d", again, port)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errStopped)
	held, err := bind(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bindAgain(ctx, portOf(held)); !errors.Is(err, errStopped) {
		t.Errorf("error %v, want the cause of the end", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
}
