package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-gitops/holdfast/internal/report"
)

// view are the flags of the commands that read: how long they wait, and how they print.
type view struct {
	output    string
	noHeaders bool
	timeout   time.Duration
}

func (v *view) bind(flags *pflag.FlagSet) {
	flags.StringVarP(&v.output, "output", "o", "", "json, yaml, or wide for text in full")
	flags.BoolVar(&v.noHeaders, "no-headers", false, "leave out the headers of tables")
	flags.DurationVar(&v.timeout, "timeout", 30*time.Second, "how long the cluster may take to answer")
}

// check refuses an unknown form of output before anything is read.
func (v *view) check() error {
	switch v.output {
	case "", "wide", "json", "yaml":
		return nil
	}
	return usageError{fmt.Errorf("there is no output %q: -o takes json, yaml or wide", v.output)}
}

func (v *view) context(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, v.timeout)
}

// answer is what can be printed as text.
type answer interface {
	WriteText(io.Writer, report.TextOptions) error
}

// print prints an answer in the form that was asked for.
func (v *view) print(out io.Writer, a answer, namespaces bool) error {
	switch v.output {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(a)
	case "yaml":
		content, err := yaml.Marshal(a)
		if err != nil {
			return err
		}
		_, err = out.Write(content)
		return err
	}
	return a.WriteText(out, report.TextOptions{
		Now: time.Now(), Namespaces: namespaces, Wide: v.output == "wide", NoHeaders: v.noHeaders,
	})
}
