package supervisor

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

const upUsage = `devcluster up --dir DIR [--port N] [--restart-apiserver] [--apiserver-arg ARG]...

Runs a cluster in the foreground and prints the line "ready" when a pod can
run. It ends on Ctrl-C, on SIGTERM, and when its parent process is gone, and
leaves no process behind.

  --dir DIR   where everything is kept: DIR/kubeconfig, one log and one file
              with the process id per component (DIR/apiserver.pid, DIR/etcd.pid),
              the data. Starting again on it continues with the same objects,
              credentials and, if it is free, port; pods start anew.
  --port N    port of the API server on 127.0.0.1; without it, or with 0, a
              free one is chosen

For tests of outages: a component can be stopped and continued by signals to its
process. One that ends, ends the cluster, unless it is the API server and

  --restart-apiserver    starts it again when it is killed, on its port
  --apiserver-arg ARG    gives it one more argument; may be repeated. With
                         --apiserver-arg=--request-timeout=3s a stopped etcd makes
                         requests time out that may or may not take effect

Containers are simulated. The tag of an image says what it does:

  missing     can't be pulled (ErrImagePull, ImagePullBackOff)
  crash       exits with code 1 at once (CrashLoopBackOff)
  exit0       exits with code 0 at once (a Job completes)
  others      run until they are stopped; init containers end well at once

Annotations of the pod, to be put into pod templates:

  devcluster.holdfast.dev/unready: "true"     never ready; works on a live pod too
  devcluster.holdfast.dev/ready-after: "5s"   ready this long after the start; live too
  devcluster.holdfast.dev/exit-after: "5s"    the containers end this long after their start
  devcluster.holdfast.dev/exit-code: "1"      with this code instead of the tag's (others: 0)
  devcluster.holdfast.dev/stop-after: "10s"   takes this long to stop, within the grace period

Probes count as passed while a container runs.
`

// maxPort is the highest port there is.
const maxPort = 1<<16 - 1

// ParseFlags reads the flags of up. Every error is one line that says what to do;
// the flag package's own would be followed by the whole usage.
func ParseFlags(args []string, out io.Writer) (Options, error) {
	o := Options{Ready: out}
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.Dir, "dir", "", "")
	flags.IntVar(&o.Port, "port", 0, "")
	flags.BoolVar(&o.RestartAPIServer, "restart-apiserver", false, "")
	flags.Func("apiserver-arg", "", func(arg string) error {
		o.APIServerArgs = append(o.APIServerArgs, arg)
		return nil
	})
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, writeErr := fmt.Fprint(out, upUsage)
		return o, errors.Join(err, writeErr)
	case err != nil:
		return o, fmt.Errorf("read flags of up: %w: try `devcluster up --help`", err)
	case flags.NArg() > 0:
		return o, fmt.Errorf("up takes no arguments beside its flags, got %q: try `devcluster up --help`", strings.Join(flags.Args(), " "))
	case o.Dir == "":
		return o, errors.New("no directory given: say with --dir DIR where the cluster may keep its data")
	case o.Port < 0 || o.Port > maxPort:
		return o, fmt.Errorf("there is no port %d: give --port a number from 1 to %d, or leave it out to have a free one chosen", o.Port, maxPort)
	}
	return o, nil
}
