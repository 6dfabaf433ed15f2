package build_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/build"
)

// data returns the data of the only ConfigMap of a build.
func data(t *testing.T, r build.Result) map[string]any {
	t.Helper()
	if len(r.Objects) != 1 {
		t.Fatalf("%d objects, want one: %v", len(r.Objects), ids(r))
	}
	d, _, err := unstructured.NestedMap(r.Objects[0].Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// oneValue is a ConfigMap with one value, written as a block so that no quoting is needed.
func oneValue(value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\ndata:\n  k: |-\n    " +
		strings.ReplaceAll(value, "\n", "\n    ") + "\n"
}

// P47: the forms of an expression.
func TestSubstitutionExpressions(t *testing.T) {
	variables := map[string]string{"v": "Hello", "path": "/a/b/c.txt", "empty": "", "_x1": "why", "other": "o"}
	tests := map[string]struct{ text, want string }{
		"P47 value":                         {"<${v}>", "<Hello>"},
		"P47 underscore and digit":          {"${_x1}", "why"},
		"P47 length":                        {"n ${#v}", "n 5"},
		"P47 lower case":                    {"${v,} ${v,,}", "hello hello"},
		"P47 upper case":                    {"${v^} ${v^^}", "Hello HELLO"},
		"P47 offset":                        {"${v:1}", "ello"},
		"P47 offset and length":             {"${v:1:3}", "ell"},
		"P47 prefix":                        {"${path#*/} ${path##*/}", "a/b/c.txt c.txt"},
		"P47 suffix":                        {"${path%.*} ${path%%/b*}", "/a/b/c /a"},
		"P47 default of an empty one":       {"${empty:-d} ${empty:=d}", "d d"},
		"P47 default of a missing one":      {"${missing:-d} ${missing:=d} ${missing=d}", "d d d"},
		"P47 default not needed":            {"${v:-d}", "Hello"},
		"P47 nested default":                {"${missing:=${other}}", "o"},
		"P47 nested default, with text":     {"${missing:=a-${other}-b}", "a-o-b"},
		"P47 replace one":                   {"${v/l/L}", "HeLlo"},
		"P47 replace all":                   {"${v//l/L}", "HeLLo"},
		"P47 replace at the start and end":  {"${v/#H/J} ${v/%o/a}", "Jello Hella"},
		"P47 replace a closing brace":       {"${v/}/x}", "Hello"},
		"P47 no braces":                     {"$v $HOME", "$v $HOME"},
		"P47 escaped":                       {"$${v}", "${v}"},
		"P47 escaped dollar before a value": {"$$${v}", "$Hello"},
		"P47 escaped twice":                 {"$$$${v}", "$${v}"},
		"P47 dollar before a value":         {"cost $ ${v}", "cost $ Hello"},
		"P47 across lines":                  {"${missing:=one\ntwo}", "one\ntwo"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, whole := range []bool{false, true} {
				got, err := build.Build(write(t, files{"a.yaml": oneValue(tt.text)}), at(""),
					build.Options{Substitution: &build.Substitution{Variables: variables, WholeText: whole}})
				if err != nil {
					t.Fatalf("whole text %v: %v", whole, err)
				}
				if k := data(t, got)["k"]; k != tt.want {
					t.Errorf("whole text %v: %q, want %q", whole, k, tt.want)
				}
			}
		})
	}
}

// C47: what is no expression of a valid name comes through byte for byte. Flux fails on some of it, and halves dollars in the
// rest; the flag for Flux's way brings that back.
func TestC47TextThatIsNoExpression(t *testing.T) {
	tests := map[string]struct {
		text string
		// flux is what Flux makes of it, empty if it fails the build.
		flux string
	}{
		"hyphen in the name":                  {text: "${kube-id}"},
		"home":                                {text: "cd $HOME && ls", flux: "cd $HOME && ls"},
		"argument":                            {text: "echo ${1} ${10}"},
		"process":                             {text: "kill $$", flux: "kill $"},
		"regular expression":                  {text: `location ~ \.(css|js)$ {`, flux: `location ~ \.(css|js)$ {`},
		"array":                               {text: "${list[@]} ${#list[@]}"},
		"positional":                          {text: "$@ $# $? $!", flux: "$@ $# $? $!"},
		"arithmetic":                          {text: "$((1+1)) $(date)", flux: "$((1+1)) $(date)"},
		"Kubernetes' own escape":              {text: "$$(POD_IP)", flux: "$(POD_IP)"},
		"open end":                            {text: "${"},
		"open end, with a name":               {text: "${name"},
		"alternate value":                     {text: "${v+set} ${v?unset}"},
		"template":                            {text: "${{ secrets.X }} ${ v }"},
		"indirect":                            {text: "${!v}"},
		"escaped with a backslash and quotes": {text: `"\$" '$' \\`, flux: `"\$" '$' \\`},
		"dollars at the end":                  {text: "a$$$", flux: "a$$"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := write(t, files{"a.yaml": oneValue(tt.text)})
			variables := map[string]string{"v": "x"}
			got, err := build.Build(root, at(""), build.Options{Substitution: &build.Substitution{Variables: variables}})
			if err != nil {
				t.Fatal(err)
			}
			if k := data(t, got)["k"]; k != tt.text {
				t.Errorf("%q, want it unchanged: %q", k, tt.text)
			}
			got, err = build.Build(root, at(""), build.Options{Substitution: &build.Substitution{Variables: variables, WholeText: true}})
			switch {
			case tt.flux == "" && err == nil:
				t.Errorf("as Flux: no error, got %q", data(t, got)["k"])
			case tt.flux != "" && err != nil:
				t.Errorf("as Flux: %v", err)
			case tt.flux != "" && data(t, got)["k"] != tt.flux:
				t.Errorf("as Flux: %q, want %q", data(t, got)["k"], tt.flux)
			}
		})
	}
}

// An escaped expression is written without the escape, whatever is in its braces: Flux's users have escaped all of their scripts.
func TestC47EscapedText(t *testing.T) {
	root := write(t, files{"a.yaml": oneValue("$${KEEP} $${1} $${list[@]} $${kube-id}")})
	got, err := build.Build(root, at(""), build.Options{Substitution: &build.Substitution{Variables: map[string]string{"v": "x"}}})
	const want = "${KEEP} ${1} ${list[@]} ${kube-id}"
	if err != nil || data(t, got)["k"] != want {
		t.Errorf("%v, %v, want %q", data(t, got)["k"], err, want)
	}
}

const crdWithExpression = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  conversion: {strategy: None}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, description: "write ${var} or ${missing}"}}
`

// C47: a definition's descriptions are no expressions, and do not fail the build. The rest of it is substituted, as in Flux.
func TestC47DefinitionsAreNotDescribedByVariables(t *testing.T) {
	root := write(t, files{"crd.yaml": strings.Replace(crdWithExpression, "{strategy: None}", "{strategy: '${strategy}'}", 1)})
	variables := map[string]string{"var": "x", "strategy": "None"}
	got, err := build.Build(root, at(""), build.Options{Substitution: &build.Substitution{Variables: variables}})
	if err != nil {
		t.Fatal(err)
	}
	want, err := build.Build(write(t, files{"crd.yaml": crdWithExpression}), at(""), build.Options{})
	if err != nil || got.Digest != want.Digest {
		t.Errorf("%v, got\n%v\nwant\n%v", err, got.Objects[0].Object, want.Objects[0].Object)
	}
	if _, err := build.Build(root, at(""), build.Options{Substitution: &build.Substitution{Variables: variables, WholeText: true}}); err == nil {
		t.Error("as Flux: the missing variable of the description does not fail the build")
	}
}

// P51: a label or an annotation opts an object out, in lower case only. C47 as well.
func TestSubstitutionOptOut(t *testing.T) {
	object := func(kind string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, " + kind + "}\ndata: {k: '${v} $$ ${missing}'}\n"
	}
	for name, tt := range map[string]struct {
		metadata string
		fails    bool
	}{
		"P51 label":      {metadata: "labels: {kustomize.toolkit.fluxcd.io/substitute: disabled}"},
		"P51 annotation": {metadata: "annotations: {kustomize.toolkit.fluxcd.io/substitute: disabled}"},
		"P51 upper case": {metadata: "annotations: {kustomize.toolkit.fluxcd.io/substitute: Disabled}", fails: true},
		"P51 other":      {metadata: "annotations: {kustomize.toolkit.fluxcd.io/substitute: enabled}", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := build.Build(write(t, files{"a.yaml": object(tt.metadata)}), at(""),
				build.Options{Substitution: &build.Substitution{Variables: map[string]string{"v": "x"}}})
			if tt.fails != (err != nil) {
				t.Fatalf("error %v, want one: %v", err, tt.fails)
			}
			if err == nil && data(t, got)["k"] != "${v} $$ ${missing}" {
				t.Errorf("%v", data(t, got))
			}
		})
	}
}

// P46: without a variable nothing is touched, unless that is asked for.
func TestSubstitutionStrategies(t *testing.T) {
	root := write(t, files{"a.yaml": oneValue("${x:=d} $${y}")})
	for name, tt := range map[string]struct {
		substitution *build.Substitution
		want         string
	}{
		"P43 no postBuild":        {nil, "${x:=d} $${y}"},
		"P46 WithVariables, none": {&build.Substitution{}, "${x:=d} $${y}"},
		"P46 WithVariables, one":  {&build.Substitution{Variables: map[string]string{"z": ""}}, "d ${y}"},
		"P46 Always":              {&build.Substitution{Always: true}, "d ${y}"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := build.Build(root, at(""), build.Options{Substitution: tt.substitution})
			if err != nil || data(t, got)["k"] != tt.want {
				t.Errorf("%v, %v, want %q", data(t, got)["k"], err, tt.want)
			}
		})
	}
}

// P49: the result is read as YAML, so that values take its types, and quotes or a tag keep strings.
func TestSubstitutionTypes(t *testing.T) {
	root := write(t, files{"a.yaml": `apiVersion: example.com/v1
kind: Widget
metadata: {name: w, labels: {tagged: "${tagged}"}, annotations: {quoted: "${q}${number}${q}", off: "${q}${boolean}${q}"}}
spec: {number: "${number}", boolean: "${boolean}", text: "${text}", interval: "${number}m"}
`})
	got, err := build.Build(root, at(""), build.Options{Substitution: &build.Substitution{Variables: map[string]string{
		"number": "123", "boolean": "true", "text": "abc", "q": `"`, "tagged": "!!str 123"}}})
	if err != nil {
		t.Fatal(err)
	}
	u := got.Objects[0]
	spec, _ := u.Object["spec"].(map[string]any)
	for what, pair := range map[string][2]any{
		"P49 number": {spec["number"], int64(123)}, "P49 boolean": {spec["boolean"], true},
		"P49 text": {spec["text"], "abc"}, "P49 part of a text": {spec["interval"], "123m"},
		"P49 tag": {u.GetLabels()["tagged"], "123"}, "P49 quotes": {u.GetAnnotations()["quoted"], "123"},
		"P49 quoted boolean": {u.GetAnnotations()["off"], "true"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %T %v, want %T %v", what, pair[0], pair[0], pair[1], pair[1])
		}
	}
}

// P48, P50, P52: what fails, in Flux's words, naming the object and its file, and never a value.
func TestSubstitutionErrors(t *testing.T) {
	deployment := strings.Replace(deploy, "nginx:1.0", "nginx:${tag}", 1)
	const value = "hunter2"
	for name, tt := range map[string]struct {
		manifest  string
		variables map[string]string
		want      string
	}{
		"P50 not set": {deployment, map[string]string{"v": value},
			`post build failed for 'Deployment.v1.apps/web': envsubst error: variable substitution failed: variable not set (strict mode): "tag" (in sub/a.yaml)`},
		"P52 core group": {oneValue("${tag}"), map[string]string{"v": value},
			`post build failed for 'ConfigMap.v1.[noGrp]/a': envsubst error: variable substitution failed: variable not set (strict mode): "tag" (in sub/a.yaml)`},
		"P48 name": {oneValue("x"), map[string]string{"a-b": value},
			`post build failed for 'ConfigMap.v1.[noGrp]/a': envsubst error: 'a-b' var name is invalid, must match '^[_[:alpha:]][_[:alpha:][:digit:]]*$' (in sub/a.yaml)`},
		"P48 name that begins with a digit": {oneValue("x"), map[string]string{"1a": value}, "'1a' var name is invalid"},
		"P52 malformed":                     {oneValue("${v:=x"), map[string]string{"v": value}, "post build failed for 'ConfigMap.v1.[noGrp]/a': envsubst error: variable substitution failed: "},
		"P52 no YAML any more": {deployment, map[string]string{"tag": "1: *" + value},
			"post build failed for 'Deployment.v1.apps/web': envsubst error: YAMLToJSON: yaml: line "},
		"P52 an anchor that is not there": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: '${v}'}\n", map[string]string{"v": "*" + value}, "YAMLToJSON: "},
		"P52 negative length":             {oneValue("${v:2:-1}"), map[string]string{"v": value}, "variable substitution failed: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := build.Build(write(t, files{"sub/a.yaml": tt.manifest}), at("sub"),
				build.Options{Substitution: &build.Substitution{Variables: tt.variables}})
			if !as[*build.SubstitutionError](err) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%T: %v\nwant %s", err, err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), value) {
				t.Errorf("a value in: %v", err)
			}
		})
	}
}

// P50: without strict mode a variable without a value is empty.
func TestSubstitutionWithoutStrictMode(t *testing.T) {
	root := write(t, files{"a.yaml": oneValue("<${missing}> ${1}")})
	for whole, want := range map[bool]string{false: "<> ${1}", true: "<>"} {
		got, err := build.Build(root, at(""), build.Options{Substitution: &build.Substitution{Always: true, Lenient: true, WholeText: whole}})
		if err != nil || data(t, got)["k"] != want {
			t.Errorf("P50: whole text %v: %q, %v, want %q", whole, data(t, got)["k"], err, want)
		}
	}
}

// P43, P76: variables are replaced in what was built, before the common metadata of the spec, which is taken as it is.
func TestSubstitutionComesBeforeCommonMetadata(t *testing.T) {
	root := write(t, files{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ${name}\n"})
	ks := at("", func(s *fluxv1.KustomizationSpec) {
		s.CommonMetadata = &fluxv1.CommonMetadata{Labels: map[string]string{"l": "${name}"}}
	})
	got, err := build.Build(root, ks, build.Options{Substitution: &build.Substitution{Variables: map[string]string{"name": "x"}}})
	if err != nil || got.Objects[0].GetName() != "x" || got.Objects[0].GetLabels()["l"] != "${name}" {
		t.Errorf("%v, %v", got.Objects, err)
	}
}

// C47: a changed variable is another build, and one that changes a generated object under its name is told of.
func TestC47ChangedVariable(t *testing.T) {
	root := write(t, files{"kustomization.yaml": "configMapGenerator:\n- {name: app, literals: ['k=${v}']}\n- {name: other, literals: ['k=w']}\n"})
	results := map[string]build.Result{}
	for _, v := range []string{"1a", "2a"} {
		got, err := build.Build(root, at(""), build.Options{Substitution: &build.Substitution{Variables: map[string]string{"v": v}}})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.InPlace) != 1 || !strings.HasPrefix(got.InPlace[0].Name, "app-") {
			t.Errorf("changed in place: %v, want the ConfigMap app", got.InPlace)
		}
		results[v] = got
	}
	a, b := results["1a"], results["2a"]
	if a.Digest == b.Digest {
		t.Error("another value gives the same digest")
	}
	if a.Objects[0].GetName() != b.Objects[0].GetName() {
		t.Error("another value gives another name, which it does not in Flux")
	}
}

// Every setting that changes the outcome is in the key by which builds are told apart.
func TestSubstitutionKey(t *testing.T) {
	seen := map[string]int{}
	for i, s := range []*build.Substitution{
		nil, {}, {Always: true}, {Lenient: true}, {WholeText: true}, {Variables: map[string]string{"a": "b"}}, {Variables: map[string]string{"a": "c"}},
		{Variables: map[string]string{"a": "", "b": ""}}, {Variables: map[string]string{"a": "\"\n\"b\"=\""}},
	} {
		if other, ok := seen[s.Key()]; ok {
			t.Errorf("%d and %d have the same key", i, other)
		}
		seen[s.Key()] = i
	}
}
