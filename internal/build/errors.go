package build

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// PathNotFound says that the spec's path is not in the artifact.
type PathNotFound struct {
	// Path as in the spec.
	Path string
	// Problem says why it was not found.
	Problem string
}

// Error has Flux's text; users and tests look for its beginning.
func (e *PathNotFound) Error() string {
	return fmt.Sprintf("kustomization path not found: stat %s: %s", e.Path, e.Problem)
}

// OutsideError says that a file refers to something that is not in the artifact, by a path or by a link.
type OutsideError struct {
	// File holds the reference. Empty for the spec.
	File string
	// Path as it is written there.
	Path string
}

// Error names the reference and the file.
func (e *OutsideError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("path '%s' leads out of the artifact", e.Path)
	}
	return fmt.Sprintf("kustomize build failed: path '%s' in %s leads out of the artifact", e.Path, e.File)
}

// UnsupportedError says that a kustomization file asks for something that is never done, or was switched off.
type UnsupportedError struct {
	// File is the kustomization file.
	File string
	// What is asked for, such as helmCharts.
	What string
}

// Error names the feature and the file.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("kustomize build failed: %s in %s: not supported", e.What, e.File)
}

// ObjectError says what is wrong with an object in the result.
type ObjectError struct {
	// ID of the object as far as it is known.
	ID object.ID
	// File that the object comes from, if it could be found.
	File string
	// Field that is wrong, if it is a single one.
	Field string
	// Problem in words.
	Problem string
	// Err is what kustomize said, if it noticed.
	Err error
}

// Error names the object, the field and the file.
func (e *ObjectError) Error() string {
	msg := e.Problem
	if e.Field != "" {
		msg = e.Field + ": " + msg
	}
	switch known := e.ID.Kind != "" || e.ID.Name != ""; {
	case e.Problem == undecodable && known:
		msg += e.ID.String()
	case e.Problem == undecodable:
		msg += "an object without any of them"
	case known:
		msg = e.ID.String() + ": " + msg
	}
	if e.File != "" {
		msg += " (in " + e.File + ")"
	}
	if e.Err != nil {
		msg = e.Err.Error() + ": " + msg
	}
	return msg
}

// Unwrap returns what kustomize said.
func (e *ObjectError) Unwrap() error { return e.Err }

// DuplicateError says that two objects of the result are the same object to Kubernetes.
type DuplicateError struct {
	// ID that both have.
	ID object.ID
	// First and Second say where they come from: the file, or the API version where no file is known.
	First, Second string
	// Err is what kustomize said, if it noticed.
	Err error
}

// Error names both.
func (e *DuplicateError) Error() string {
	msg := fmt.Sprintf("%s is defined twice: in %s and in %s", e.ID, e.First, e.Second)
	if e.Err != nil {
		msg = e.Err.Error() + ": " + msg
	}
	return msg
}

// Unwrap returns what kustomize said.
func (e *DuplicateError) Unwrap() error { return e.Err }

// Error is a failure of kustomize or of the generated kustomization file. Its text has no path of the disk in it.
type Error struct {
	text string
	err  error
}

// Error is the text without paths of the disk.
func (e *Error) Error() string { return e.text }

// Unwrap returns the original error, which may name paths of the disk.
func (e *Error) Unwrap() error { return e.err }

// buildFailed begins every error of kustomize's build, as in Flux.
const buildFailed = "kustomize build failed: "

// clones are the directories into which kustomize clones remote bases.
var clones = regexp.MustCompile(`(/[^\s'":]*)?/kustomize-[0-9]+/?`)

// scrubbed returns the error under a text that starts with the prefix and holds no path of the disk: those in the
// root become relative to it, and directories of clones are left out. A message is read by people who know the
// repository, and a path that changes with every build would make a new message, and an event, of the same error.
func scrubbed(prefix string, err error, root string) error {
	text := strings.ReplaceAll(err.Error(), root+"/", "")
	text = strings.ReplaceAll(text, root, ".")
	// A path that leaves the root by one level.
	if parent := filepath.Dir(root); parent != "/" {
		text = strings.ReplaceAll(text, parent+"/", "../")
	}
	return &Error{text: prefix + withoutValues(clones.ReplaceAllString(text, "")), err: err}
}

// quoted are the places where kustomize quotes what it was given, which may be values of Secrets: configurations of its built-in
// generators and transformers, patches, literals, lines of env files, and credentials in URLs.
var quoted = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile("(?s)with config: `.*`"), "with config (not shown)"},
	{regexp.MustCompile(`(?s)(patch(?:es)? from) \[.*\]`), "$1 (not shown)"},
	{regexp.MustCompile(`(?s)(literal(?: source)?:?) .*?(, expected| expected|$)`), "$1 (not shown)$2"},
	{regexp.MustCompile(`(://)[^/\s@]+@`), "$1"},
}

// withoutValues cuts out of a text of kustomize what it quotes.
func withoutValues(text string) string {
	for _, q := range quoted {
		text = q.pattern.ReplaceAllString(text, q.instead)
	}
	return text
}

// pathless returns typed errors as they are, and others without paths of the disk.
func pathless(err error, root string) error {
	var outside *OutsideError
	var object *ObjectError
	if errors.As(err, &outside) || errors.As(err, &object) {
		return err
	}
	return scrubbed(buildFailed, err, root)
}
