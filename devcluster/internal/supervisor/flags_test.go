package supervisor

import (
	"bytes"
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
)

func TestParseFlags(t *testing.T) {
	for name, test := range map[string]struct {
		args    []string
		wantErr string
		port    int
	}{
		"port chosen":     {args: []string{"--dir", "d"}},
		"port given":      {args: []string{"--dir=d", "--port=6443"}, port: 6443},
		"no directory":    {args: []string{"--port", "1"}, wantErr: "--dir"},
		"no port":         {args: []string{"--dir", "d", "--port"}, wantErr: "needs an argument"},
		"no number":       {args: []string{"--dir", "d", "--port", "http"}, wantErr: "invalid value"},
		"no such port":    {args: []string{"--dir", "d", "--port", "65536"}, wantErr: "--port"},
		"negative":        {args: []string{"--dir", "d", "--port", "-1"}, wantErr: "--port"},
		"stray argument":  {args: []string{"--dir", "d", "6443"}, wantErr: "6443"},
		"unknown flag":    {args: []string{"--dri", "d"}, wantErr: "--help"},
		"empty directory": {args: []string{"--dir", ""}, wantErr: "--dir"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := ParseFlags(test.args, &bytes.Buffer{})
			if test.wantErr == "" {
				if err != nil || o.Dir != "d" || o.Port != test.port {
					t.Errorf("options %+v, error %v", o, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.wantErr) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q", err, test.wantErr)
			}
		})
	}
}

func TestParseFlagsForOutages(t *testing.T) {
	o, err := ParseFlags([]string{"--dir", "d", "--restart-apiserver", "--apiserver-arg=--v=1", "--apiserver-arg", "--audit-log-path=-"}, &bytes.Buffer{})
	if err != nil || !o.RestartAPIServer || !slices.Equal(o.APIServerArgs, []string{"--v=1", "--audit-log-path=-"}) {
		t.Errorf("options %+v, error %v", o, err)
	}
}

func TestHelpNamesEveryAnnotation(t *testing.T) {
	var out bytes.Buffer
	if _, err := ParseFlags([]string{"--help"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("error %v, want help", err)
	}
	for _, word := range []string{"unready", "ready-after", "exit-after", "exit-code", "stop-after", "restart-apiserver", "apiserver-arg", ".pid", "missing", "crash", "exit0"} {
		if !strings.Contains(out.String(), word) {
			t.Errorf("the help does not name %q", word)
		}
	}
}
