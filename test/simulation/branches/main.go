// Command branches reads a coverage profile and says, for each package, how many of its branches were taken, and which never
// were. A branch is a block of statements that run together, as the Go compiler counts them.
package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "branches:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument, a coverage profile")
	}
	file, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was only read
	return report(file, out)
}

// branches are those of a package: how often each was taken, by its place.
type branches map[string]bool

func report(profile io.Reader, out io.Writer) error {
	packages := map[string]branches{}
	lines := bufio.NewScanner(profile)
	for lines.Scan() {
		// file.go:12.34,15.2 3 1
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 {
			continue
		}
		file, block, ok := strings.Cut(fields[0], ":")
		if !ok {
			return fmt.Errorf("line %q of the profile is none of a coverage profile", lines.Text())
		}
		from, _, _ := strings.Cut(block, ",")
		all := packages[path.Dir(file)]
		if all == nil {
			all = branches{}
			packages[path.Dir(file)] = all
		}
		place := path.Base(file) + ":" + from
		all[place] = all[place] || fields[2] != "0"
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		tell(out, name, packages[name])
	}
	return lines.Err()
}

func tell(out io.Writer, name string, all branches) {
	var never []string
	for place, taken := range all {
		if !taken {
			line, _, _ := strings.Cut(place, ".go:")
			_, at, _ := strings.Cut(place, ".go:")
			at, _, _ = strings.Cut(at, ".")
			never = append(never, line+".go:"+at)
		}
	}
	slices.Sort(never)
	_, short, _ := strings.Cut(name, "/internal/")
	fmt.Fprintf(out, "%s: %d of %d branches taken", short, len(all)-len(never), len(all))
	if len(never) > 0 {
		fmt.Fprintf(out, "; never: %s", strings.Join(slices.Compact(never), " "))
	}
	fmt.Fprintln(out)
}
