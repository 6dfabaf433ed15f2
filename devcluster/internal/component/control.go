package component

import (
	"fmt"

	"github.com/spf13/cobra"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func runControllerManager(args []string) error {
	return execute(controllers.NewControllerManagerCommand(), args)
}

func runScheduler(args []string) error {
	return execute(scheduler.NewSchedulerCommand(), args)
}

func execute(command *cobra.Command, args []string) error {
	command.SetArgs(args)
	command.SilenceUsage, command.SilenceErrors = true, true
	if err := command.Execute(); err != nil {
		return fmt.Errorf("run %s: %w", command.Name(), err)
	}
	return nil
}
