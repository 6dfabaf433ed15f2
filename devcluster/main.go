// Devcluster is a Kubernetes for development and tests in one program: etcd,
// API server, controller manager, scheduler, a kubelet whose containers are
// simulated, and kubectl. It needs no network, no container runtime and no
// other program.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	_ "time/tzdata" // CronJobs with a time zone, on machines that lack the data

	"github.com/holdfast-gitops/holdfast/devcluster/internal/component"
	"github.com/holdfast-gitops/holdfast/devcluster/internal/contract"
	"github.com/holdfast-gitops/holdfast/devcluster/internal/release"
	"github.com/holdfast-gitops/holdfast/devcluster/internal/supervisor"
)

const usage = `devcluster runs a Kubernetes for development and tests.

  devcluster up --dir DIR [...]        run a cluster in the foreground
  devcluster kubectl ARGS...           kubectl; reads KUBECONFIG and --kubeconfig
  devcluster help                      this text; "devcluster up --help" says more
`

func main() {
	err := run(os.Args[1:], os.Stdout)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintf(os.Stderr, "%s%v\n", contract.FatalPrefix, err)
	os.Exit(1)
}

func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("no command given: try `devcluster up --dir DIR` or `devcluster help`")
	}
	if err := release.Announce(); err != nil {
		return err
	}
	switch command, rest := args[0], args[1:]; command {
	case "up":
		o, err := supervisor.ParseFlags(rest, out)
		if err != nil {
			return err
		}
		return supervisor.Up(o)
	case "kubectl":
		return component.Kubectl(rest)
	case "component":
		if len(rest) == 0 {
			return errors.New("`devcluster component` is for `devcluster up` alone")
		}
		return component.Run(rest[0], rest[1:])
	case "help", "-h", "--help":
		return help(out)
	default:
		return fmt.Errorf("unknown command %q: the commands are up, kubectl and help", command)
	}
}

func help(out io.Writer) error {
	_, err := fmt.Fprint(out, usage)
	return err
}
