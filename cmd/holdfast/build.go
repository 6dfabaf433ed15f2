package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-gitops/holdfast/internal/build"
)

// remoteBuildCommand is what `holdfast run` starts itself as, to build what refers to other hosts. It is not for people.
const remoteBuildCommand = "build-remote"

func newRemoteBuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:    remoteBuildCommand,
		Short:  "Build a Kustomization with remote bases, for holdfast run",
		Hidden: true,
		Example: `  # One build, as JSON
  holdfast build-remote < request.json > result.json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			// Whatever a library prints must not get into the result.
			out := os.Stdout
			os.Stdout = os.Stderr
			return build.Serve(os.Stdin, out)
		},
	}
}

// remoteBuilds returns how this process starts itself. Git, should this process run it, may not clone from the disk either.
func remoteBuilds() (*build.Isolation, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program's own file: %w", err)
	}
	if err := os.Setenv("GIT_ALLOW_PROTOCOL", build.AllowedGitProtocols); err != nil {
		return nil, fmt.Errorf("limit the protocols of git: %w", err)
	}
	return build.NewIsolation(program, remoteBuildCommand), nil
}
