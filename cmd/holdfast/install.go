package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-gitops/holdfast/internal/install"
)

const installHelp = `Puts into the cluster what holdfast needs: the CRDs (supersets of Flux's), a namespace, an account with its
rights, and the controller. Objects are applied server-side with the field manager holdfast-cli, CRDs first, and a line
is printed for each. Doing it again changes only what differs.

With --export nothing is applied: the same objects are printed as YAML, for Git or kubectl apply.

Profile "flux" gives the controller the rights that Flux has (cluster-admin), so that existing manifests work unchanged.
Profile "least" gives it none to write what Git asks for: each Kustomization works as the ServiceAccount that spec.serviceAccountName
names, else as the account "default" of its namespace, and needs rights for what it deploys. Sources of other namespaces and remote
bases are refused. What the profile "flux" bound to cluster-admin before is taken back. To have it read kinds of your own, label a ClusterRole with rbac.holdfast.dev/aggregate-to-reader: "true".

Artifacts are served by the Service "holdfast". Flux's own Service "source-controller" is left alone; beside it, use
--controllers=kustomization, which installs neither source CRDs nor an artifact Service.`

const installExamples = `  # Everything, into the namespace flux-system
  holdfast install

  # Into Git instead
  holdfast install --export > holdfast.yaml

  # Only the CRDs, for a controller that runs on this machine
  holdfast install --crds-only

  # In place of Flux's kustomize-controller, its source-controller stays
  holdfast install --controllers=kustomization --force-conflicts`

func newInstallCommand(g *globals) *cobra.Command {
	var (
		options install.Options
		apply   install.ApplyOptions
		export  bool
	)
	command := &cobra.Command{
		Use:     "install",
		Short:   "Install the CRDs and the controller, or print them",
		Long:    installHelp,
		Example: installExamples,
		Args:    cobra.NoArgs,
	}
	flags := command.Flags()
	flags.BoolVar(&export, "export", false, "print the objects as YAML instead of applying them")
	flags.BoolVar(&options.CRDsOnly, "crds-only", false, "only the CRDs")
	flags.StringVar(&options.Image, "image", "", "image of the controller as NAME:TAG; otherwise the one of this version")
	flags.StringVar(&options.Profile, "profile", install.ProfileFlux, "rights of the controller: "+install.ProfileFlux+" or "+install.ProfileLeast)
	flags.StringSliceVar(&options.Controllers, "controllers", []string{install.ControllerSource, install.ControllerKustomization}, "controllers to install")
	flags.StringVar(&options.EventsAddr, "events-addr", "", "address of Flux's notification-controller, which then gets every event")
	flags.BoolVar(&apply.ForceConflicts, "force-conflicts", false, "take over objects and fields that something else manages, such as Flux's CRDs")
	flags.DurationVar(&apply.Timeout, "timeout", time.Minute, "how long to wait until the API server serves the CRDs")
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		options.Namespace = g.namespace
		options.Version = buildVersion()
		objects, err := install.Objects(options)
		if err != nil {
			return usageError{err}
		}
		if !options.CRDsOnly && options.Image == "" && strings.HasPrefix(options.Version, developmentVersion) {
			cmd.PrintErrln("note: this is a development build, whose image may not be in any registry: see --image")
		}
		if export {
			if _, err := fmt.Fprint(cmd.OutOrStdout(), install.SupersededNote(options)); err != nil {
				return err
			}
			return install.Export(cmd.OutOrStdout(), objects)
		}
		config, err := g.config()
		if err != nil {
			return err
		}
		apply.Out, apply.Superseded = cmd.OutOrStdout(), install.Superseded(options)
		return install.Apply(cmd.Context(), config, objects, apply)
	}
	return command
}
