package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// figure is what one phase took.
type figure struct {
	Round      int    `json:"round"`
	Controller string `json:"controller"`
	Phase      string `json:"phase"`
	// Seconds until the phase was done: until all were ready, for most. Settled counts until what they replaced was pruned, too.
	Seconds float64 `json:"seconds"`
	Settled float64 `json:"settledSeconds"`
	// CPU of the controller in seconds, with what it did right after.
	CPU float64 `json:"cpuSeconds"`
	// Requests that the controller sent, by method.
	Requests map[string]int `json:"requests"`
	// Peak is the most memory that the controller has had so far, with the pages of its file; Own is what it had at the end without them.
	Peak int64 `json:"peakBytes"`
	Own  int64 `json:"ownBytes"`
}

func (f figure) total() (n int) {
	for _, requests := range f.Requests {
		n += requests
	}
	return n
}

// methods are the requests by method, as text.
func (f figure) methods() string {
	var parts []string
	for _, method := range slices.Sorted(maps.Keys(f.Requests)) {
		parts = append(parts, fmt.Sprintf("%s %d", method, f.Requests[method]))
	}
	return strings.Join(parts, ", ")
}

// table shows the figures, and those of a peer as ratios to the same phase of holdfast.
func table(figures []figure) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "round\tcontroller\tphase\tseconds\tsettled\tCPU s\trequests\tpeak MiB\town MiB\tby method\tratios (s, CPU, requests, peak)")
	for _, f := range figures {
		fmt.Fprintf(w, "%d\t%s\t%s\t%.1f\t%.1f\t%.2f\t%d\t%d\t%d\t%s\t%s\n", f.Round, f.Controller, f.Phase, f.Seconds, f.Settled, f.CPU, f.total(), f.Peak>>20, f.Own>>20,
			f.methods(), ratios(f, figures))
	}
	_ = w.Flush() // into memory
	return text.String()
}

// ratios compares a peer's figure with the one of holdfast in the same round.
func ratios(f figure, figures []figure) string {
	if f.Controller != "peer" {
		return ""
	}
	for _, own := range figures {
		if own.Controller == "holdfast" && own.Round == f.Round && own.Phase == f.Phase {
			return fmt.Sprintf("%.1f, %.1f, %.1f, %.1f", f.Seconds/own.Seconds, f.CPU/own.CPU, float64(f.total())/float64(own.total()), float64(f.Peak)/float64(own.Peak))
		}
	}
	return ""
}
