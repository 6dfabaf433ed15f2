package usage

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// path leads from an object, or from a part of one, to the values it names. Each step is a field; one that ends in
// "[]" is a list and fans out over its items.
type path []string

// listMark ends a step that fans out.
const listMark = "[]"

// parsePath cuts the dotted form in which the tables of this package write paths.
func parsePath(s string) path { return strings.Split(s, ".") }

// ParsePath reads a path as people write it: fields separated by dots, [*] after a list, and ['a.b'] for a field whose name
// has dots. The braces and the dollar sign of a JSONPath may stand around it; filters, indexes and slices are refused.
func ParsePath(s string) (path, error) { //nolint:revive // the type is opaque: it is only handed on to NewRule
	rest := strings.TrimSpace(s)
	if inner, ok := strings.CutPrefix(rest, "{"); ok {
		rest, ok = strings.CutSuffix(inner, "}")
		if !ok {
			return nil, errPath
		}
	}
	rest = strings.TrimPrefix(rest, "$")
	if rest != "" && rest[0] != '.' && rest[0] != '[' {
		rest = "." + rest
	}
	var p path
	for rest != "" {
		step := nextStep.FindStringSubmatch(rest)
		switch {
		case step == nil:
			return nil, errPath
		case step[3] != "" && (len(p) == 0 || strings.HasSuffix(p[len(p)-1], listMark)):
			return nil, errPath // a list of nothing, or a list of lists
		case step[3] != "":
			p[len(p)-1] += listMark
		default:
			p = append(p, step[1]+step[2])
		}
		rest = rest[len(step[0]):]
	}
	if len(p) == 0 {
		return nil, errPath
	}
	return p, nil
}

var (
	// nextStep is a field, a field in quotes, or the mark of a list.
	nextStep = regexp.MustCompile(`^(?:\.([A-Za-z0-9_-]+)|\[['"]([^'"\[\]]+)['"]\]|(\[\*\]))`)
	errPath  = errors.New("want fields separated by dots, such as spec.tls[*].secretName, with [*] after a list and ['a.b'] for a field with dots")
)

// wrongType is the error of a field that holds something else than the Kubernetes API allows there.
type wrongType struct {
	at   string
	want string
	got  any
}

func (e *wrongType) Error() string {
	return fmt.Sprintf("field %s: want %s, got %T", e.at, e.want, e.got)
}

// each calls visit with every value at the end of the path. A field that is absent or null ends its branch without a
// word, since the API server stores either for "not set"; a field of a wrong type is an error.
func (p path) each(node any, visit func(any) error) error { return p.walk(node, 0, visit) }

func (p path) walk(node any, at int, visit func(any) error) error {
	if node == nil {
		return nil
	}
	if at == len(p) {
		return visit(node)
	}
	m, ok := node.(map[string]any)
	if !ok {
		return p.wrong(at, "an object", node)
	}
	field, isList := strings.CutSuffix(p[at], listMark)
	next := m[field]
	if !isList || next == nil {
		return p.walk(next, at+1, visit)
	}
	items, ok := next.([]any)
	if !ok {
		return p.wrong(at+1, "a list", next)
	}
	for _, item := range items {
		if err := p.walk(item, at+1, visit); err != nil {
			return err
		}
	}
	return nil
}

// wrong names the field in which the walk could not go on.
func (p path) wrong(at int, want string, got any) error {
	return &wrongType{at: strings.Join(p[:at], "."), want: want, got: got}
}

// names calls visit with every string at the end of the path that is not empty.
func (p path) names(node any, visit func(string)) error {
	return p.each(node, func(v any) error {
		s, ok := v.(string)
		if !ok {
			return p.wrong(len(p), "a string", v)
		}
		if s != "" {
			visit(s)
		}
		return nil
	})
}

// maps calls visit with every object at the end of the path.
func (p path) maps(node any, visit func(map[string]any) error) error {
	return p.each(node, func(v any) error {
		m, ok := v.(map[string]any)
		if !ok {
			return p.wrong(len(p), "an object", v)
		}
		return visit(m)
	})
}

// text returns the string at the end of a path without lists, or "" when there is none.
func (p path) text(node any) (string, error) {
	var found string
	err := p.names(node, func(s string) { found = s })
	return found, err
}

// number returns the whole number at the end of a path without lists. Objects from the API hold int64; those decoded
// by other means may hold float64.
func (p path) number(node any) (n int64, found bool, err error) {
	err = p.each(node, func(v any) error {
		switch v := v.(type) {
		case int64:
			n, found = v, true
		case float64:
			n, found = int64(v), true
		default:
			return p.wrong(len(p), "a number", v)
		}
		return nil
	})
	return n, found, err
}
