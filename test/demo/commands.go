package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// program is one of the programs in bin, against the cluster of the demo.
func (s *stage) program(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig, "TMPDIR="+s.dir)
	return cmd
}

// output runs a program and returns what it printed.
func (s *stage) output(ctx context.Context, stdin, name string, args ...string) ([]byte, error) {
	cmd := s.program(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// kubectl runs kubectl and shows what it printed.
func (s *stage) kubectl(ctx context.Context, args ...string) error {
	out, err := s.output(ctx, "", "devcluster", append([]string{"kubectl"}, args...)...)
	if err != nil {
		return err
	}
	s.command("kubectl "+shellWords(args), out)
	return nil
}

// holdfast runs the command line of holdfast and shows what it printed.
func (s *stage) holdfast(ctx context.Context, args ...string) (string, error) {
	out, err := s.output(ctx, "", "holdfast", args...)
	if err != nil {
		return "", err
	}
	s.command("holdfast "+shellWords(args), out)
	return string(out), nil
}

// applyManifests sends manifests to the cluster.
func (s *stage) applyManifests(ctx context.Context, manifests string) error {
	_, err := s.output(ctx, manifests, "devcluster", "kubectl", "apply", "-f", "-")
	return err
}

// shellWords joins arguments as a person would type them.
func shellWords(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = arg
		if strings.ContainsAny(arg, " []'\"$*?") {
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
