package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestExitCodes(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	tests := map[string]struct {
		args []string
		code int
		says string
	}{
		"help":              {args: nil, code: 0, says: "holdfast install"},
		"version":           {args: []string{"version"}, code: 0, says: "holdfast v"},
		"version flag":      {args: []string{"--version"}, code: 0, says: "holdfast v"},
		"export, its image": {args: []string{"install", "--export"}, code: 0, says: "note: this is a development build"},
		"no kubeconfig":     {args: []string{"status"}, code: 69, says: "/none, which does not exist"},
		"export":            {args: []string{"install", "--export"}, code: 0, says: "kind: Deployment"},
		"unknown command":   {args: []string{"rnu"}, code: 64, says: "unknown command"},
		"unknown flag":      {args: []string{"run", "--no-such-flag"}, code: 64, says: "holdfast run --help"},
		"argument":          {args: []string{"version", "now"}, code: 64, says: "holdfast version"},
		"refused flag":      {args: []string{"run", "--default-kubeconfig-service-account=v"}, code: 64, says: "--default-kubeconfig-service-account"},
		"unknown gate":      {args: []string{"run", "--feature-gates=Nope=true"}, code: 64, says: "Nope"},
		"refused profile":   {args: []string{"install", "--profile=root"}, code: 64, says: "least"},
		"run, no cluster":   {args: []string{"run"}, code: 69, says: "no cluster to talk to"},
		"install, no where": {args: []string{"install"}, code: 69, says: "no cluster to talk to"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, output := execute(t, test.args...)
			if code != test.code {
				t.Errorf("exit code %d, want %d; output:\n%s", code, test.code, output)
			}
			if !strings.Contains(output, test.says) {
				t.Errorf("output does not say %q:\n%s", test.says, output)
			}
		})
	}
}

// Everyone begins with --help.
func TestEveryCommandHasHelpAndExamples(t *testing.T) {
	for _, command := range newRootCommand().Commands() {
		if command.Short == "" || command.Example == "" {
			t.Errorf("%s has no short help or no example", command.Name())
		}
		if strings.HasSuffix(command.Short, ".") {
			t.Errorf("the short help of %s ends with a period", command.Name())
		}
	}
}

func TestRunTakesItsNamespaceFromTheEnvironment(t *testing.T) {
	tests := map[string]struct {
		env   string
		flags []string
		want  string
	}{
		"neither":        {want: ""},
		"environment":    {env: "team-a", want: "team-a"},
		"flag":           {flags: []string{"--namespace=team-b"}, want: "team-b"},
		"both, env wins": {env: "team-a", flags: []string{"--namespace=team-b"}, want: "team-a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("RUNTIME_NAMESPACE", test.env)
			g := &globals{}
			command := &cobra.Command{}
			command.Flags().StringVarP(&g.namespace, "namespace", "n", "flux-system", "")
			if err := command.ParseFlags(test.flags); err != nil {
				t.Fatal(err)
			}
			if got := g.environment(command)("RUNTIME_NAMESPACE"); got != test.want {
				t.Errorf("namespace is %q, want %q", got, test.want)
			}
		})
	}
}

// Questions go to the namespace that kubectl would ask in; without one there, to Flux's.
func TestNamespaceOfQuestions(t *testing.T) {
	write := func(namespace string) string {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		content := "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {namespace: '" + namespace + "'}}]\n"
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := map[string]struct {
		globals globals
		want    string
	}{
		"flag":       {globals{namespace: "b", kubeconfig: write("a")}, "b"},
		"context":    {globals{kubeconfig: write("a")}, "a"},
		"neither":    {globals{kubeconfig: write("")}, "flux-system"},
		"no context": {globals{kubeconfig: write("a"), context: "none"}, "flux-system"},
	}
	for name, test := range tests {
		if got := test.globals.lookIn(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// execute runs the program with its output caught.
func execute(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var output bytes.Buffer
	code := run(t.Context(), args, &output, &output)
	return code, output.String()
}
