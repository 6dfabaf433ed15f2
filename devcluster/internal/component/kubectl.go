package component

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubeconfigs of other clusters may need them
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// Kubectl is kubectl. Like it, it ends the process on errors with a message
// and an exit code of its own.
func Kubectl(args []string) error {
	// The command reads them a second time, for plugins and its own name.
	os.Args = append([]string{"kubectl"}, args...)
	// As in kubectl's own main: an unreadable verbosity is reported later,
	// when the flags are parsed.
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		cmdutil.CheckErr(err)
	}
	return nil
}
