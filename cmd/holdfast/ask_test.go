package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands that read end with a code that a script can tell apart, and say what to do.
func TestExitCodesOfQuestions(t *testing.T) {
	tests := map[string]struct {
		answer int
		args   []string
		code   int
		says   string
	}{
		"status, forbidden":       {answer: http.StatusForbidden, args: []string{"status"}, code: 69, says: "get and list on kustomizations"},
		"status, unauthorized":    {answer: http.StatusUnauthorized, args: []string{"status", "-A"}, code: 69, says: "log in again"},
		"status, no CRDs":         {answer: http.StatusNotFound, args: []string{"status"}, code: 69, says: "install --crds-only"},
		"why, no CRDs":            {answer: http.StatusNotFound, args: []string{"why", "shop"}, code: 69, says: "install --crds-only"},
		"status, unknown output":  {answer: http.StatusNotFound, args: []string{"status", "-o", "xml"}, code: 64, says: "-o takes"},
		"status, two names":       {answer: http.StatusNotFound, args: []string{"status", "a", "b"}, code: 64, says: "at most 1 arg"},
		"status, name and all":    {answer: http.StatusNotFound, args: []string{"status", "a", "-A"}, code: 64, says: "exclude each other"},
		"kept, forbidden":         {answer: http.StatusForbidden, args: []string{"kept", "-A"}, code: 69, says: "get and list on kustomizations"},
		"kept, name and all":      {answer: http.StatusNotFound, args: []string{"kept", "a", "-A"}, code: 64, says: "exclude each other"},
		"confirm, forbidden":      {answer: http.StatusForbidden, args: []string{"confirm", "a", "--plan"}, code: 69, says: "get and list on kustomizations"},
		"confirm, neither":        {answer: http.StatusNotFound, args: []string{"confirm", "a"}, code: 64, says: "--plan to see"},
		"confirm, both":           {answer: http.StatusNotFound, args: []string{"confirm", "a", "--plan", "--expect=1"}, code: 64, says: "--plan to see"},
		"takeover, forbidden":     {answer: http.StatusForbidden, args: []string{"takeover", "--check"}, code: 69, says: "the right is missing"},
		"takeover, no check":      {answer: http.StatusNotFound, args: []string{"takeover"}, code: 64, says: "give --check"},
		"takeover, unknown form":  {answer: http.StatusNotFound, args: []string{"takeover", "--check", "-o", "xml"}, code: 64, says: "-o takes"},
		"handback, forbidden":     {answer: http.StatusForbidden, args: []string{"handback", "--check", "-A"}, code: 69, says: "get and list on kustomizations"},
		"handback, no check":      {answer: http.StatusNotFound, args: []string{"handback"}, code: 64, says: "give --check"},
		"handback, a name":        {answer: http.StatusNotFound, args: []string{"handback", "--check", "shop"}, code: 64, says: "unknown command"},
		"pause, forbidden":        {answer: http.StatusForbidden, args: []string{"pause", "a", "--reason=x", "--for=1h"}, code: 69, says: "the right is missing"},
		"pause, no reason":        {answer: http.StatusNotFound, args: []string{"pause", "a", "--for=1h"}, code: 64, says: "--reason"},
		"pause, no end":           {answer: http.StatusNotFound, args: []string{"pause", "a", "--reason=x"}, code: 64, says: "either --for or --until"},
		"pause, past":             {answer: http.StatusNotFound, args: []string{"pause", "a", "--reason=x", "--until=2020-01-01T00:00:00Z"}, code: 64, says: "later than now"},
		"pause, no time":          {answer: http.StatusNotFound, args: []string{"pause", "a", "--reason=x", "--until=tomorrow"}, code: 64, says: "want a time such as"},
		"plan, forbidden":         {answer: http.StatusForbidden, args: []string{"plan", "a"}, code: 69, says: "get and list on kustomizations"},
		"plan, no CRDs":           {answer: http.StatusNotFound, args: []string{"plan", "a"}, code: 69, says: "install --crds-only"},
		"plan, nothing asked":     {answer: http.StatusNotFound, args: []string{"plan"}, code: 64, says: "give a NAME"},
		"plan, both":              {answer: http.StatusNotFound, args: []string{"plan", "a", "--path=.", "--revision=main"}, code: 64, says: "exclude each other"},
		"plan, unknown output":    {answer: http.StatusNotFound, args: []string{"plan", "a", "-o", "xml"}, code: 64, says: "-o takes table, markdown"},
		"plan, unknown alarm":     {answer: http.StatusNotFound, args: []string{"plan", "a", "--fail-on=all"}, code: 64, says: "prune, replace and mass-prune"},
		"plan, unknown flag":      {answer: http.StatusNotFound, args: []string{"plan", "a", "--", "--nonsense"}, code: 64, says: "behind --"},
		"plan, no file":           {answer: http.StatusNotFound, args: []string{"plan", "--file=/none.yaml"}, code: 64, says: "no such file"},
		"reconcile, forbidden":    {answer: http.StatusForbidden, args: []string{"reconcile", "a"}, code: 69, says: "the right is missing"},
		"reconcile, source":       {answer: http.StatusForbidden, args: []string{"reconcile", "a", "--with-source"}, code: 69, says: "the right is missing"},
		"reconcile, no CRDs":      {answer: http.StatusNotFound, args: []string{"reconcile", "a"}, code: 69, says: "install --crds-only"},
		"suspend, forbidden":      {answer: http.StatusForbidden, args: []string{"suspend", "a"}, code: 69, says: "the right is missing"},
		"suspend, neither":        {answer: http.StatusNotFound, args: []string{"suspend"}, code: 64, says: "or --all"},
		"resume, both":            {answer: http.StatusNotFound, args: []string{"resume", "a", "--all"}, code: 64, says: "or --all"},
		"resume, all and wait":    {answer: http.StatusNotFound, args: []string{"resume", "--all", "--wait"}, code: 64, says: "for one Kustomization"},
		"resume, all, forbidden":  {answer: http.StatusForbidden, args: []string{"resume", "--all"}, code: 69, says: "get and list on kustomizations"},
		"retry, no CRDs":          {answer: http.StatusNotFound, args: []string{"retry", "a"}, code: 69, says: "install --crds-only"},
		"tree, forbidden":         {answer: http.StatusForbidden, args: []string{"tree", "a"}, code: 69, says: "get and list on kustomizations"},
		"tree, nothing asked":     {answer: http.StatusNotFound, args: []string{"tree"}, code: 64, says: "accepts 1 arg"},
		"events, forbidden":       {answer: http.StatusForbidden, args: []string{"events"}, code: 69, says: "get and list on events"},
		"events, name and all":    {answer: http.StatusNotFound, args: []string{"events", "a", "-A"}, code: 64, says: "exclude each other"},
		"wait, forbidden":         {answer: http.StatusForbidden, args: []string{"wait", "--commit=8be41a7"}, code: 69, says: "get and list on kustomizations"},
		"wait, no commit":         {answer: http.StatusForbidden, args: []string{"wait"}, code: 64, says: "at least 7 characters"},
		"wait, bad labels":        {answer: http.StatusForbidden, args: []string{"wait", "--commit=8be41a7", "-l", "a=(b"}, code: 64, says: "--selector"},
		"wait, unknown output":    {answer: http.StatusForbidden, args: []string{"wait", "--commit=8be41a7", "-o", "yaml"}, code: 64, says: "-o takes"},
		"uninstall, forbidden":    {answer: http.StatusForbidden, args: []string{"uninstall", "--plan"}, code: 69, says: "cluster-admin"},
		"uninstall, a name":       {answer: http.StatusForbidden, args: []string{"uninstall", "shop"}, code: 64, says: "unknown command"},
		"uninstall, nothing":      {answer: http.StatusNotFound, args: []string{"uninstall", "-y"}, code: 0, says: "is not installed in namespace flux-system"},
		"why, nothing asked":      {answer: http.StatusNotFound, args: []string{"why"}, code: 64, says: "accepts 1 arg"},
		"why, malformed question": {answer: http.StatusNotFound, args: []string{"why", "a/b/c"}, code: 64, says: "KIND/NAME"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, output := execute(t, append(test.args, "--kubeconfig", answering(t, test.answer))...)
			if code != test.code || !strings.Contains(output, test.says) {
				t.Errorf("exit code %d, want %d, and output with %q:\n%s", code, test.code, test.says, output)
			}
		})
	}
}

func TestUnreachableClusterIsSaidToBe(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	kubeconfig := kubeconfigFor(t, server.URL)
	server.Close()
	for _, args := range [][]string{{"status"}, {"why", "shop"}, {"why", "cm/shop"}} {
		code, output := execute(t, append(args, "--kubeconfig", kubeconfig)...)
		if code != 69 || !strings.Contains(output, "can't be reached") {
			t.Errorf("%v: exit code %d, want 69; output:\n%s", args, code, output)
		}
	}
}

// answering is the kubeconfig of an API server that serves Kustomizations and answers everything about them with a status.
func answering(t *testing.T, status int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"no"}`,
			status, strings.ReplaceAll(http.StatusText(status), " ", ""))
	}))
	t.Cleanup(server.Close)
	return kubeconfigFor(t, server.URL)
}

func kubeconfigFor(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test}}]
clusters: [{name: test, cluster: {server: %q}}]
users: [{name: test, user: {token: test}}]
`, url)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
