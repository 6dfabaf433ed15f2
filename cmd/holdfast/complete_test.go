package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// listing is the kubeconfig of an API server that has Kustomizations.
func listing(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/apis/kustomize.toolkit.fluxcd.io/v1":
			_, _ = fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"kustomize.toolkit.fluxcd.io/v1",
				"resources":[{"name":"kustomizations","singularName":"","namespaced":true,"kind":"Kustomization","verbs":["get","list"]}]}`)
		case r.URL.Path == "/apis":
			_, _ = fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"kustomize.toolkit.fluxcd.io",
				"versions":[{"groupVersion":"kustomize.toolkit.fluxcd.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"kustomize.toolkit.fluxcd.io/v1","version":"v1"}}]}`)
		case strings.HasSuffix(r.URL.Path, "/kustomizations"):
			_, _ = fmt.Fprint(w, `{"kind":"KustomizationList","apiVersion":"kustomize.toolkit.fluxcd.io/v1","metadata":{},"items":[
				{"metadata":{"name":"shop","namespace":"flux-system"}},{"metadata":{"name":"search","namespace":"team-a"}},{"metadata":{"name":"infra","namespace":"team-a"}}]}`)
		default:
			_, _ = fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
		}
	}))
	t.Cleanup(server.Close)
	return kubeconfigFor(t, server.URL)
}

func TestCompletionOffersLiveNames(t *testing.T) {
	tests := map[string]struct {
		args  []string
		wants []string
		not   []string
	}{
		"names":            {args: []string{"why", ""}, wants: []string{"infra\n", "search\n", "shop\n"}},
		"what is begun":    {args: []string{"rollback", "s"}, wants: []string{"search\n", "shop\n"}, not: []string{"infra"}},
		"one is enough":    {args: []string{"history", "shop", ""}, not: []string{"infra", "search"}},
		"several, once":    {args: []string{"wait", "shop", ""}, wants: []string{"infra\n", "search\n"}, not: []string{"shop"}},
		"namespaces":       {args: []string{"status", "-n", ""}, wants: []string{"flux-system\n", "team-a\n"}},
		"nothing to name":  {args: []string{"version", ""}, not: []string{"shop"}},
		"no files, either": {args: []string{"kept", "zz"}, wants: []string{":4\n"}},
	}
	kubeconfig := listing(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, output := execute(t, append([]string{"__complete", "--kubeconfig", kubeconfig}, test.args...)...)
			if code != 0 {
				t.Errorf("exit code %d", code)
			}
			for _, want := range test.wants {
				if !strings.Contains(output, want) {
					t.Errorf("%q is not offered:\n%s", want, output)
				}
			}
			for _, not := range test.not {
				if strings.Contains(output, not) {
					t.Errorf("%q is offered:\n%s", not, output)
				}
			}
		})
	}
}

// What can't be answered offers nothing, and puts no message into the command line.
func TestCompletionWithoutAClusterIsSilent(t *testing.T) {
	for name, kubeconfig := range map[string]string{"forbidden": answering(t, http.StatusForbidden), "no kubeconfig": t.TempDir() + "/none"} {
		code, output := execute(t, "__complete", "--kubeconfig", kubeconfig, "why", "")
		if code != 0 || !strings.HasPrefix(output, ":4\n") {
			t.Errorf("%s: exit code %d:\n%s", name, code, output)
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, output := execute(t, "completion", shell); code != 0 || !strings.Contains(output, "__complete") {
			t.Errorf("%s: exit code %d, and a script that asks nothing:\n%.200s", shell, code, output)
		}
	}
}

func TestPluginOfKubectl(t *testing.T) {
	for program, want := range map[string]string{"/usr/bin/holdfast": "holdfast", "bin/kubectl-holdfast": "kubectl holdfast",
		"kubectl-holdfast.exe": "kubectl holdfast", "kubectl-holdfast-x": "holdfast"} {
		if got := displayName(program); got != want {
			t.Errorf("%s is called as %q, want %q", program, got, want)
		}
	}
}
