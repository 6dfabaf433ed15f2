package install

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/holdfast-gitops/holdfast/config"
)

//go:embed manifests/*.yaml
var manifests embed.FS

// manifestOrder lists the templates in the order in which their objects are applied.
var manifestOrder = []string{"namespace.yaml", "rbac.yaml", "network.yaml", "deployment.yaml"}

// Labels that make the stock flux CLI find the controller and its CRDs.
const (
	partOfLabel    = "app.kubernetes.io/part-of"
	instanceLabel  = "app.kubernetes.io/instance"
	componentLabel = "app.kubernetes.io/component"
	versionLabel   = "app.kubernetes.io/version"
)

// API groups of the CRDs: their names end, and their files' names begin, with the group.
const (
	kustomizeGroup = "kustomize.toolkit.fluxcd.io"
	sourceGroup    = "source.toolkit.fluxcd.io"
)

// Objects returns what the options ask for, in the order in which it has to be applied.
func Objects(o Options) ([]*unstructured.Unstructured, error) {
	o, err := o.normalize()
	if err != nil {
		return nil, err
	}
	objects, err := crds(o)
	if err != nil {
		return nil, err
	}
	if !o.CRDsOnly {
		rest, err := workload(o)
		if err != nil {
			return nil, err
		}
		objects = append(objects, rest...)
	}
	for _, object := range objects {
		label(object, o)
	}
	return objects, nil
}

// Export writes the objects as a stream of YAML documents.
func Export(w io.Writer, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		document, err := sigsyaml.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("encode %s: %w", name(object), err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", document); err != nil {
			return fmt.Errorf("write the manifests: %w", err)
		}
	}
	return nil
}

// crds reads the embedded CRDs; the file system lists them sorted by name.
func crds(o Options) ([]*unstructured.Unstructured, error) {
	entries, err := config.CRDs.ReadDir("crd")
	if err != nil {
		return nil, fmt.Errorf("list the embedded CRDs: %w", err)
	}
	var objects []*unstructured.Unstructured
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), sourceGroup) && !o.has(ControllerSource) {
			continue
		}
		content, err := config.CRDs.ReadFile(path.Join("crd", entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the embedded CRD %s: %w", entry.Name(), err)
		}
		parsed, err := parse(bytes.NewReader(content))
		if err != nil {
			return nil, fmt.Errorf("parse the embedded CRD %s: %w", entry.Name(), err)
		}
		objects = append(objects, parsed...)
	}
	return objects, nil
}

// workload renders the templates.
func workload(o Options) ([]*unstructured.Unstructured, error) {
	data := struct {
		Namespace, Image string
		Source, Least    bool
		Args             []string
	}{Namespace: o.Namespace, Image: o.Image, Source: o.has(ControllerSource), Least: o.Profile == ProfileLeast}
	for _, arg := range o.args() {
		data.Args = append(data.Args, quote(arg))
	}
	templates, err := template.New("").Option("missingkey=error").ParseFS(manifests, "manifests/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("parse the embedded manifests: %w", err)
	}
	var objects []*unstructured.Unstructured
	for _, file := range manifestOrder {
		var rendered bytes.Buffer
		if err := templates.ExecuteTemplate(&rendered, file, data); err != nil {
			return nil, fmt.Errorf("render %s: %w", file, err)
		}
		parsed, err := parse(&rendered)
		if err != nil {
			return nil, fmt.Errorf("parse the rendered %s: %w", file, err)
		}
		objects = append(objects, parsed...)
	}
	return objects, nil
}

// parse reads a stream of YAML documents.
func parse(r io.Reader) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(r, 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// label adds the labels that all objects carry.
func label(object *unstructured.Unstructured, o Options) {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[partOfLabel] = "flux"
	labels[instanceLabel] = o.Namespace
	labels[versionLabel] = labelValue(o.Version)
	if component := component(object); component != "" {
		labels[componentLabel] = component
	}
	object.SetLabels(labels)
}

// component names the Flux component whose place an object takes. The Namespace belongs to none.
func component(object *unstructured.Unstructured) string {
	switch {
	case object.GetKind() == "Namespace":
		return ""
	case strings.HasSuffix(object.GetName(), "."+sourceGroup):
		return "source-controller"
	case strings.HasSuffix(object.GetName(), "."+kustomizeGroup):
		return "kustomize-controller"
	default:
		return "holdfast"
	}
}

// name is how messages call an object.
func name(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetKind() + "/" + object.GetName()
	}
	return object.GetKind() + "/" + object.GetNamespace() + "/" + object.GetName()
}

// quote makes a YAML string of an argument.
func quote(arg string) string {
	return "'" + strings.ReplaceAll(arg, "'", "''") + "'"
}
