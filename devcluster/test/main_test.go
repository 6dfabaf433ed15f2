// Package test starts the built program and looks at what it does, from
// outside: with a client of the API, and with the process table.
package test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// program is the path of the program under test.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("skipped: these tests start clusters")
		return
	}
	code, err := runWithProgram(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// runWithProgram builds the program, unless DEVCLUSTER names one, and runs the
// tests.
func runWithProgram(m *testing.M) (code int, err error) {
	if program = os.Getenv("DEVCLUSTER"); program != "" {
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "devcluster-test-")
	if err != nil {
		return 1, fmt.Errorf("create directory for the program: %w", err)
	}
	defer func() {
		if removeErr := os.RemoveAll(dir); err == nil && removeErr != nil {
			err = fmt.Errorf("remove the program: %w", removeErr)
		}
	}()
	program = filepath.Join(dir, "devcluster")
	build := exec.Command("go", "build", "-o", program, "..")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return m.Run(), nil
}
