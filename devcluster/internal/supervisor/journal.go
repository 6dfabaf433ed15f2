package supervisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/holdfast-gitops/holdfast/devcluster/internal/contract"
)

// journal is what a component has written. It goes to a file, and the line
// that most likely says why the component ended is kept in memory: the file
// may lack it just then, when the disk is full.
type journal struct {
	path string

	mu      sync.Mutex
	out     io.WriteCloser
	partial []byte
	// lost is the first error of writing the file.
	lost  error
	fatal string // the first one: what follows is a consequence
	error string // the last one
	other string // the last one
}

func newJournal(path string) (*journal, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create log file: %w", err)
	}
	return &journal{path: path, out: f}, nil
}

// Write never fails: a component must not end because of its log.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.out.Write(p); err != nil && j.lost == nil {
		j.lost = err
	}
	j.partial = append(j.partial, p...)
	for {
		line, rest, found := bytes.Cut(j.partial, []byte("\n"))
		if !found {
			break
		}
		j.note(strings.TrimSpace(string(line)))
		j.partial = rest
	}
	return len(p), nil
}

func (j *journal) note(line string) {
	if line == "" {
		return
	}
	switch text, grave := classify(line); grave {
	case severityFatal:
		if j.fatal == "" {
			j.fatal = text
		}
	case severityError:
		j.error = text
	default:
		j.other = text
	}
}

// reason returns the line that best says why the component ended.
func (j *journal) reason() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	best := "it wrote nothing"
	for _, line := range []string{j.fatal, j.error, j.other} {
		if line != "" {
			best = line
			break
		}
	}
	if j.lost != nil {
		best += fmt.Sprintf(" (the log is incomplete: %v)", j.lost)
	}
	return best
}

// Close closes the file.
func (j *journal) Close() error {
	if err := j.out.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("close log file %s: %w", j.path, err)
	}
	return nil
}

type severity int

const (
	severityOther severity = iota
	severityError
	severityFatal
)

// klogLine is the header of a line that Kubernetes logs.
var klogLine = regexp.MustCompile(`^([IWEF])\d{4} [\d:.]+ +\d+ [^\]]+\] `)

// classify returns the text of a log line without its header, and how grave it
// is. It knows the formats of the components: klog, etcd's JSON, Go's panics.
func classify(line string) (string, severity) {
	if header := klogLine.FindStringSubmatch(line); header != nil {
		grave := map[string]severity{"E": severityError, "F": severityFatal}[header[1]]
		return strings.TrimPrefix(line, header[0]), grave
	}
	if strings.HasPrefix(line, "{") {
		return classifyJSON(line)
	}
	if text, found := strings.CutPrefix(line, contract.FatalPrefix); found {
		return text, severityFatal
	}
	if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
		return line, severityFatal
	}
	return line, severityOther
}

func classifyJSON(line string) (string, severity) {
	var entry struct{ Level, Msg, Error string }
	if json.Unmarshal([]byte(line), &entry) != nil {
		return line, severityOther
	}
	text := entry.Msg
	if entry.Error != "" {
		text += ": " + entry.Error
	}
	switch entry.Level {
	case "fatal", "panic":
		return text, severityFatal
	case "error":
		return text, severityError
	default:
		return text, severityOther
	}
}
