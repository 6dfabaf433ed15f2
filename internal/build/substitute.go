package build

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/envsubst"
	"github.com/fluxcd/pkg/envsubst/parse"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Substitution is what spec.postBuild asks for: variables in the text of the objects are replaced by their values.
type Substitution struct {
	// Variables are the values by name.
	Variables map[string]string
	// Secret tells that some of the values are out of a Secret.
	Secret bool
	// Always substitutes even without a variable, for the sake of defaults.
	Always bool
	// Lenient makes a variable with neither value nor default empty. Without it such a variable fails the build.
	Lenient bool
	// WholeText treats every "$$" and "${" as Flux does. Without it only expressions of a valid name, and what escapes a
	// brace, are touched: scripts and regular expressions come through as they are.
	WholeText bool
}

// secret tells whether values of a Secret may be in any object.
func (s *Substitution) secret() bool { return s != nil && s.Secret }

// Key stands for everything that shapes the result, so that a changed value is seen. It must not leave the process: values
// may be short enough to be guessed from it.
func (s *Substitution) Key() string {
	if s == nil {
		return ""
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%t %t %t\n", s.Always, s.Lenient, s.WholeText)
	for _, name := range slices.Sorted(maps.Keys(s.Variables)) {
		fmt.Fprintf(hash, "%q=%q\n", name, s.Variables[name])
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// SubstitutionError says why the variables of an object could not be replaced. Values are not in it.
type SubstitutionError struct {
	// ID of the object before the substitution, and APIVersion its version.
	ID         object.ID
	APIVersion string
	// File that the object comes from, if it could be found.
	File string
	// Err names the variable, or the fault of the expression.
	Err error
}

// Error has Flux's text, and the file.
func (e *SubstitutionError) Error() string {
	msg := fmt.Sprintf("post build failed for '%s/%s': envsubst error: %s", gvkText(e.ID, e.APIVersion), e.ID.Name, e.Err)
	if e.File != "" {
		msg += " (in " + e.File + ")"
	}
	return msg
}

// Unwrap returns the fault.
func (e *SubstitutionError) Unwrap() error { return e.Err }

// gvkText is how kustomize writes a kind, and so Flux: Kind.version.group.
func gvkText(id object.ID, apiVersion string) string {
	group := id.Group
	if group == "" {
		group = "[noGrp]"
	}
	return id.Kind + "." + apiVersion[strings.LastIndexByte(apiVersion, '/')+1:] + "." + group
}

// hashedName matches the names of generated objects, by the alphabet that kustomize writes its hashes in.
var hashedName = regexp.MustCompile(`-[2456789bcdfghkmt]{10}$`)

// apply replaces the variables of all objects. It returns those that changed though their name has a hash of what they held
// before: a variable that gets another value changes them under the same name.
func (s *Substitution) apply(objects []*unstructured.Unstructured) (hashed []object.ID, err error) {
	if s == nil || len(s.Variables) == 0 && !s.Always {
		return nil, nil
	}
	for _, u := range objects {
		if isExempt(u, "substitute") {
			continue
		}
		id, apiVersion := object.IDOf(u), u.GetAPIVersion()
		changed, err := s.object(u)
		if err != nil {
			return nil, &SubstitutionError{ID: id, APIVersion: apiVersion, Err: err}
		}
		if changed && hashedName.MatchString(id.Name) {
			hashed = append(hashed, object.IDOf(u))
		}
	}
	return hashed, nil
}

// isExempt tells whether a label or annotation of the object turns something off. As in Flux the value has to be lower case.
func isExempt(u *unstructured.Unstructured, what string) bool {
	key := v1.ControlPrefix + what
	return u.GetLabels()[key] == "disabled" || u.GetAnnotations()[key] == "disabled"
}

// variableName is what a variable may be called.
var variableName = regexp.MustCompile(`^[_[:alpha:]][_[:alpha:][:digit:]]*$`)

// object replaces the variables of one object and tells whether that changed it.
func (s *Substitution) object(u *unstructured.Unstructured) (changed bool, err error) {
	for _, name := range slices.Sorted(maps.Keys(s.Variables)) {
		if !variableName.MatchString(name) {
			return false, fmt.Errorf("'%s' var name is invalid, must match '%s'", name, variableName)
		}
	}
	if !s.WholeText {
		defer takeSchemas(u)()
	}
	// The text is kustomize's own, so that values come to stand in it as they do in Flux.
	data, err := json.Marshal(u.Object)
	if err != nil {
		return false, fmt.Errorf("encode: %w", err)
	}
	text, err := yaml.JSONToYAML(data)
	if err != nil {
		return false, fmt.Errorf("encode: %w", err)
	}
	var expanded string
	err = guarded(func() (err error) {
		expanded, err = s.expand(string(text))
		return err
	})
	if err != nil {
		return false, fmt.Errorf("variable substitution failed: %w", err)
	}
	if expanded == string(text) {
		return false, nil
	}
	return true, replaceBy(u, expanded)
}

// yamlLine is where a parser stumbled. What follows it may quote a value.
var yamlLine = regexp.MustCompile(`yaml: line \d+:`)

// replaceBy puts the object that the text describes in the place of the one that was there.
func replaceBy(u *unstructured.Unstructured, text string) error {
	replaced, err := decode([]byte(text))
	if err != nil {
		return fmt.Errorf("YAMLToJSON: %s the object is no valid YAML once its variables are replaced", yamlLine.FindString(err.Error()))
	}
	if len(replaced.Object) == 0 {
		return fmt.Errorf("UnmarshalJSON: nothing is left of the object once its variables are replaced")
	}
	u.Object = replaced.Object
	return nil
}

func (s *Substitution) lookUp(name string) (string, bool) {
	value, ok := s.Variables[name]
	return value, ok || s.Lenient
}

// expand evaluates the expressions in a text.
func (s *Substitution) expand(text string) (string, error) {
	if s.WholeText {
		return envsubst.Eval(text, s.lookUp)
	}
	var out strings.Builder
	for {
		at := strings.IndexByte(text, '$')
		if at < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		out.WriteString(text[:at])
		text = text[at:]
		dollars := len(text) - len(strings.TrimLeft(text, "$"))
		if !strings.HasPrefix(text[dollars:], "{") {
			out.WriteString(text[:dollars])
			text = text[dollars:]
			continue
		}
		// Before a brace two dollars stand for one.
		out.WriteString(text[:dollars/2])
		if dollars%2 == 0 {
			text = text[dollars:]
			continue
		}
		value, length, err := s.expression(text[dollars-1:])
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		text = text[dollars-1+length:]
	}
}

// expressionStart matches what begins an expression: a valid name and something that may follow it.
var expressionStart = regexp.MustCompile(`^\$\{(#[_[:alpha:]][_[:alpha:][:digit:]]*\}|[_[:alpha:]][_[:alpha:][:digit:]]*[}:=,^/#%])`)

// maxBraces bounds the closing braces that are tried as the end of an expression; each nested one needs one more.
const maxBraces = 64

// expression evaluates what the text begins with, and says how much of the text that was. A dollar that begins no expression
// stands for itself. An expression ends at the first brace that makes it a whole.
func (s *Substitution) expression(text string) (value string, length int, err error) {
	if !expressionStart.MatchString(text) {
		return "$", 1, nil
	}
	failure := parse.ErrMissingClosingBrace
	end := 0
	for range maxBraces {
		brace := strings.IndexByte(text[end:], '}')
		if brace < 0 {
			break
		}
		end += brace + 1
		template, err := envsubst.Parse(text[:end])
		if err == nil {
			value, err := template.Execute(s.lookUp)
			return value, end, err
		}
		failure = err
	}
	return "", 0, failure
}

// takeSchemas takes the schemas out of a CustomResourceDefinition, whose descriptions are text about expressions more often than
// expressions, and returns a function that puts them back.
func takeSchemas(u *unstructured.Unstructured) (putBack func()) {
	schemas := map[int]any{}
	if u.GetKind() == "CustomResourceDefinition" {
		for i, version := range crdVersions(u) {
			if schema, ok := version["schema"]; ok {
				schemas[i] = schema
				delete(version, "schema")
			}
		}
	}
	return func() {
		versions := crdVersions(u)
		for i, schema := range schemas {
			if i < len(versions) {
				versions[i]["schema"] = schema
			}
		}
	}
}

func crdVersions(u *unstructured.Unstructured) []map[string]any {
	list, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "versions")
	items, _ := list.([]any)
	versions := make([]map[string]any, 0, len(items))
	for _, item := range items {
		if version, ok := item.(map[string]any); ok {
			versions = append(versions, version)
		}
	}
	return versions
}
