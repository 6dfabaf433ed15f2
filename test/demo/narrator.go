package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// narrator tells the story. Words carry the meaning; bold only helps the eye, and only on a terminal.
type narrator struct {
	out  io.Writer
	bold bool
	// step is the title of the step that runs, for a failure.
	step string
	// open is true while a line lacks its end.
	open bool
}

func newNarrator(out io.Writer) *narrator {
	file, isFile := out.(*os.File)
	plain := os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	return &narrator{out: out, bold: isFile && !plain && term.IsTerminal(int(file.Fd()))}
}

// line prints a line. Where the output is gone there is nobody left to tell, so that errors of the writer are ignored.
func (n *narrator) line(format string, args ...any) {
	if n.open {
		n.open = false
		fmt.Fprintln(n.out)
	}
	fmt.Fprintf(n.out, format+"\n", args...)
}

// heading prints a line that stands out.
func (n *narrator) heading(text string) {
	if n.bold {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	n.line("\n%s", text)
}

// begin starts a step.
func (n *narrator) begin(title string) {
	n.step = title
	n.heading(title)
}

// say prints what the demo does.
func (n *narrator) say(format string, args ...any) { n.line("  "+format, args...) }

// await announces what is waited for; seen ends the line.
func (n *narrator) await(what string) {
	fmt.Fprintf(n.out, "  check: %s ...", what)
	n.open = true
}

func (n *narrator) seen(after time.Duration) {
	n.open = false
	fmt.Fprintf(n.out, " yes, after %s\n", after.Round(100*time.Millisecond))
}

// command shows a command and what it printed.
func (n *narrator) command(line string, output []byte) {
	n.line("  $ %s", line)
	n.indent(output)
}

func (n *narrator) indent(text []byte) {
	for line := range bytes.Lines(bytes.TrimRight(text, "\n")) {
		n.line("%s", bytes.TrimRight(append([]byte("    "), line...), "\n "))
	}
}

// quote prints text that someone else wrote.
func (n *narrator) quote(title string, text []byte) {
	n.line("%s", title)
	n.indent(text)
}

func (n *narrator) problem(format string, args ...any) { n.line("\ndemo: "+format, args...) }

// unmet is an expectation that did not come true in time.
type unmet struct {
	expected string
	seen     error
	within   time.Duration
}

func (u *unmet) Error() string {
	return fmt.Sprintf("expected within %s: %s; seen: %v", u.within, u.expected, u.seen)
}

func (u *unmet) Unwrap() error { return u.seen }

// failed says which step failed, what it expected and what was seen.
func (n *narrator) failed(err error) {
	n.problem("FAILED in: %s", strings.TrimSpace(n.step))
	var u *unmet
	if !errors.As(err, &u) {
		n.line("  error:    %v", err)
		return
	}
	n.line("  expected: %s (within %s)", u.expected, u.within)
	n.line("  seen:     %v", u.seen)
}
