package observe_test

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-gitops/holdfast/internal/health"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
)

var claimKind = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}

// cluster answers reads with the objects given as YAML, by kind and name, or with an error. reads counts them.
type cluster struct {
	objects map[string]string
	faults  map[string]error
	reads   map[string]int
}

func (c *cluster) observer() *observe.Observer {
	c.reads = map[string]int{}
	return &observe.Observer{Mapper: mapperOf(configMap, thing, crdKind, claimKind), Reader: interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			u := obj.(*unstructured.Unstructured)
			name := u.GetKind() + "/" + key.Name
			c.reads[name]++
			if err := c.faults[name]; err != nil {
				return err
			}
			if c.objects[name] == "" {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "x"}, key.Name)
			}
			return decode(c.objects[name], u)
		},
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			c.reads["pods"]++
			if err := c.faults["pods"]; err != nil {
				return err
			}
			pod := &unstructured.Unstructured{}
			if c.objects["pods"] != "" {
				if err := decode(c.objects["pods"], pod); err != nil {
					return err
				}
				list.(*unstructured.UnstructuredList).Items = []unstructured.Unstructured{*pod}
			}
			return nil
		},
	})}
}

// decode reads an object as the client does: whole numbers are int64.
func decode(doc string, u *unstructured.Unstructured) error {
	content, err := yaml.YAMLToJSON([]byte(doc))
	if err != nil {
		return err
	}
	return utiljson.Unmarshal(content, &u.Object)
}

// verdict is that about one object of a kind.
func (c *cluster) verdict(t *testing.T, gvk schema.GroupVersionKind, name string, change func(*observe.Check)) health.Verdict {
	t.Helper()
	check := observe.Check{ID: object.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: "shop", Name: name}, Version: gvk.Version}
	if change != nil {
		change(&check)
	}
	return c.observer().Health(t.Context(), []observe.Check{check}, now)[0].Verdict
}

const (
	fresh     = "{apiVersion: example.com/v1, kind: Thing, metadata: {name: t, generation: 1}}"
	reporting = `{spec: {versions: [{name: v1, schema: {openAPIV3Schema: {properties: {status: {properties: {conditions: {type: array}}}}}}}]}}`
)

// C34: a custom resource whose definition promises a status is in progress until it has one, and a static one is ready.
// What can't be read is not guessed, except where reading is forbidden: then the object is taken as Flux takes it.
func TestC34CustomResourceWithoutStatus(t *testing.T) {
	const definition = "CustomResourceDefinition/things.example.com"
	tests := map[string]struct {
		object, definition string
		fault              error
		change             func(*observe.Check)
		want               health.Status
	}{
		"promises a status":       {object: fresh, definition: reporting, want: health.InProgress},
		"promises none":           {object: fresh, definition: "{spec: {versions: [{name: v1}]}}", want: health.Current},
		"no definition":           {object: fresh, want: health.Current},
		"may not be read":         {object: fresh, fault: apierrors.NewForbidden(resource, "x", errors.New("no")), want: health.Current},
		"could not be read":       {object: fresh, fault: apierrors.NewInternalError(errors.New("boom")), want: health.Unknown},
		"has a status":            {object: "{apiVersion: example.com/v1, kind: Thing, metadata: {name: t}, status: {x: 1}}", fault: errors.New("not asked"), want: health.Current},
		"an expression beats it":  {object: fresh, fault: errors.New("not asked"), change: func(c *observe.Check) { c.Custom = always(health.Current) }, want: health.Current},
		"an expression says less": {object: fresh, change: func(c *observe.Check) { c.Custom = always(health.InProgress) }, want: health.InProgress},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := &cluster{objects: map[string]string{"Thing/t": tt.object, definition: tt.definition}, faults: map[string]error{definition: tt.fault}}
			if got := c.verdict(t, thing, "t", tt.change); got.Status != tt.want {
				t.Errorf("%+v, want %s", got, tt.want)
			}
		})
	}
}

func always(s health.Status) func(*unstructured.Unstructured) health.Verdict {
	return func(*unstructured.Unstructured) health.Verdict { return health.Verdict{Status: s} }
}

// One look reads a definition once, however many objects of its kind there are.
func TestDefinitionIsReadOnce(t *testing.T) {
	c := &cluster{objects: map[string]string{"Thing/a": fresh, "Thing/b": fresh, "CustomResourceDefinition/things.example.com": reporting}}
	id := object.ID{Group: thing.Group, Kind: thing.Kind, Namespace: "shop", Name: "a"}
	other := id
	other.Name = "b"
	c.observer().Health(t.Context(), []observe.Check{{ID: id, Version: "v1"}, {ID: other, Version: "v1"}}, now)
	if n := c.reads["CustomResourceDefinition/things.example.com"]; n != 1 {
		t.Errorf("read %d times", n)
	}
}

// C36 a, b: a claim whose class waits for the first pod is ready while no pod asks for it, and in progress when one does.
func TestC36UnboundClaim(t *testing.T) {
	const (
		pending = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: shop}, spec: {storageClassName: fast}, status: {phase: Pending}}"
		waits   = "{volumeBindingMode: WaitForFirstConsumer}"
		user    = "{metadata: {name: db}, spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}, status: {phase: Pending}}"
	)
	forbidden := apierrors.NewForbidden(resource, "x", errors.New("no"))
	tests := map[string]struct {
		claim, class, pod   string
		classFault, podsErr error
		want                health.Status
	}{
		"nobody asks":             {claim: pending, class: waits, want: health.Current},
		"a pod asks":              {claim: pending, class: waits, pod: user, want: health.InProgress},
		"a pod asks for another":  {claim: pending, class: waits, pod: "{metadata: {name: db}, spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: other}}, {name: w, configMap: {name: data}}]}}", want: health.Current},
		"an ephemeral volume":     {claim: pending, class: waits, pod: "{metadata: {name: da}, spec: {volumes: [{name: ta, ephemeral: {}}]}}", want: health.Current},
		"a pod that has ended":    {claim: pending, class: waits, pod: "{metadata: {name: db}, spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}, status: {phase: Succeeded}}", want: health.Current},
		"bound at once":           {claim: pending, class: "{volumeBindingMode: Immediate}", want: health.InProgress},
		"no class":                {claim: pending, want: health.InProgress},
		"no class in the claim":   {claim: "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, status: {phase: Pending}}", want: health.InProgress},
		"lost":                    {claim: "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {storageClassName: fast}, status: {phase: Lost}}", class: waits, want: health.InProgress},
		"bound":                   {claim: "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {storageClassName: fast}, status: {phase: Bound}}", classFault: errors.New("not asked"), want: health.Current},
		"class may not be read":   {claim: pending, classFault: forbidden, want: health.InProgress},
		"class could not be read": {claim: pending, classFault: errors.New("boom"), want: health.Unknown},
		"pods may not be read":    {claim: pending, class: waits, podsErr: forbidden, want: health.InProgress},
		"pods could not be read":  {claim: pending, class: waits, podsErr: errors.New("boom"), want: health.Unknown},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := &cluster{objects: map[string]string{"PersistentVolumeClaim/data": tt.claim, "StorageClass/fast": tt.class, "pods": tt.pod},
				faults: map[string]error{"StorageClass/fast": tt.classFault, "pods": tt.podsErr}}
			if got := c.verdict(t, claimKind, "data", nil); got.Status != tt.want {
				t.Errorf("%+v, want %s", got, tt.want)
			}
		})
	}
	// The claim of an ephemeral volume has the names of pod and volume.
	c := &cluster{objects: map[string]string{"PersistentVolumeClaim/db-v": pending, "StorageClass/fast": waits,
		"pods": "{metadata: {name: db}, spec: {volumes: [{name: v, ephemeral: {}}]}}"}}
	if got := c.verdict(t, claimKind, "db-v", nil); got.Status != health.Current {
		t.Errorf("%+v", got) // the object is called data: nobody asks for it
	}
}
