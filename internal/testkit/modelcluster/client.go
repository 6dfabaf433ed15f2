package modelcluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Verb is what a request asks for.
type Verb string

// The verbs that a Client sends.
const (
	Get      Verb = "get"
	List     Verb = "list"
	Create   Verb = "create"
	Apply    Verb = "apply"
	Patch    Verb = "patch"
	Status   Verb = "patch status"
	Delete   Verb = "delete"
	Discover Verb = "discover"
)

// Request is one request of a client, as the gate sees it.
type Request struct {
	Verb Verb
	// ID of the object; for a list its kind and namespace, for discovery nothing.
	ID     object.ID
	DryRun bool
	// Metadata is true for reads of nothing but metadata.
	Metadata bool
	// Preconditions of a deletion.
	Preconditions Preconditions
	// Continue is set for all pages of a list but the first.
	Continue bool
}

// Writes tells whether the request is one that changes something when it is served.
func (r Request) Writes() bool {
	return !r.DryRun && slices.Contains([]Verb{Create, Apply, Patch, Status, Delete}, r.Verb)
}

// Sends tells whether the request has an object, or takes one away: what admission looks at, in dry-runs too.
func (r Request) Sends() bool {
	return slices.Contains([]Verb{Create, Apply, Patch, Delete}, r.Verb)
}

// String is the request in a line of a history.
func (r Request) String() string {
	s := string(r.Verb)
	if r.DryRun {
		s += " (dry-run)"
	}
	if r.Continue {
		s += " (next page)"
	}
	return s + " " + r.ID.String()
}

// Gate stands before the server. Both functions are called in the goroutine of the client.
type Gate interface {
	// Enter returns once the request may be served, or the error that the client gets instead.
	Enter(r Request) error
	// Leave returns what the client gets for a request that was served with the given result.
	Leave(r Request, err error) error
}

// Client is a client of a Cluster. It implements client.Client as far as the controllers of this module use it, and
// panics beyond that.
type Client struct {
	client.Client // nil: what is not implemented here is not used

	name    string
	cluster *Cluster
	gate    Gate
	scheme  *runtime.Scheme
	mapper  *Mapper
}

// NewClient returns a client that writes under a name.
func (c *Cluster) NewClient(name string, scheme *runtime.Scheme, gate Gate) *Client {
	return &Client{name: name, cluster: c, gate: gate, scheme: scheme, mapper: c.newMapper(gate)}
}

// Behind returns the same client behind another gate.
func (c *Client) Behind(gate Gate) *Client { return c.cluster.NewClient(c.name, c.scheme, gate) }

// Mapper returns what the client knows of the kinds.
func (c *Client) Mapper() *Mapper { return c.mapper }

// RESTMapper is the same as the interface has it.
func (c *Client) RESTMapper() meta.RESTMapper { return c.mapper }

// Scheme is the scheme of typed objects.
func (c *Client) Scheme() *runtime.Scheme { return c.scheme }

// do asks the gate, and serves the request.
func (c *Client) do(r Request, serve func() error) error {
	if err := c.gate.Enter(r); err != nil {
		return err
	}
	return c.gate.Leave(r, serve())
}

// kindFor finds the kind of an object, first by what the client knows, then by what the server serves.
func (c *Client) kindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	gvk, err := apiutil.GVKForObject(obj, c.scheme)
	if err != nil {
		return gvk, err
	}
	_, err = c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	return gvk, err
}

// served is the kind, or the 404 of a server that does not know it.
func (c *Client) served(r Request, gk schema.GroupKind) (*kind, error) {
	if k := c.cluster.kindOf(gk); k != nil {
		return k, nil
	}
	return nil, apierrors.NewGenericServerResponse(404, string(r.Verb), schema.GroupResource{Group: gk.Group, Resource: gk.Kind},
		r.ID.Name, "404 page not found", 0, true)
}

func idFor(gvk schema.GroupVersionKind, namespace, name string) object.ID {
	return object.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: namespace, Name: name}
}

// Get reads an object.
func (c *Client) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	gvk, err := c.kindFor(obj)
	if err != nil {
		return err
	}
	_, metadata := obj.(*metav1.PartialObjectMetadata)
	r := Request{Verb: Get, ID: idFor(gvk, key.Namespace, key.Name), Metadata: metadata}
	return c.do(r, func() error {
		k, err := c.served(r, gvk.GroupKind())
		if err != nil {
			return err
		}
		if !k.namespaced {
			key.Namespace = ""
		}
		e := c.cluster.find(gvk.GroupKind(), key.Namespace, key.Name)
		if e == nil {
			return apierrors.NewNotFound(k.resource(), key.Name)
		}
		return c.decode(e, obj)
	})
}

// decode copies a stored object into one of the client.
func (c *Client) decode(e *entry, into runtime.Object) error {
	switch into := into.(type) {
	case *unstructured.Unstructured:
		into.Object = runtime.DeepCopyJSON(e.obj.Object)
		return nil
	case *metav1.PartialObjectMetadata:
		gvk := e.obj.GroupVersionKind()
		part := map[string]any{"metadata": e.obj.Object["metadata"]}
		*into = metav1.PartialObjectMetadata{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(part, into)
		into.SetGroupVersionKind(gvk)
		return err
	}
	if e.typed == nil || reflect.TypeOf(e.typed) != reflect.TypeOf(into) {
		typed, ok := reflect.New(reflect.TypeOf(into).Elem()).Interface().(runtime.Object)
		if !ok {
			return fmt.Errorf("decode %T", into)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(e.obj.Object, typed); err != nil {
			return err
		}
		e.typed = typed
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(e.typed.DeepCopyObject()).Elem())
	return nil
}

// errExpired is what a server says about a page whose list it no longer has.
var errExpired = apierrors.NewResourceExpired("the provided continue parameter is too old")

// List reads a page of objects. All pages of a list show the state in which the first one was served.
func (c *Client) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(list, c.scheme)
	if err != nil {
		return err
	}
	gvk.Kind = gvk.Kind[:len(gvk.Kind)-len("List")]
	if _, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version); err != nil {
		return err
	}
	o := (&client.ListOptions{}).ApplyOptions(opts)
	if o.FieldSelector != nil {
		return errors.New("the model lists without field selectors")
	}
	r := Request{Verb: List, ID: idFor(gvk, o.Namespace, ""), Continue: o.Continue != ""}
	return c.do(r, func() error {
		if _, err := c.served(r, gvk.GroupKind()); err != nil {
			return err
		}
		return c.page(gvk, o, list)
	})
}

func (c *Client) page(gvk schema.GroupVersionKind, o *client.ListOptions, list client.ObjectList) error {
	s := c.cluster
	var rest []*entry
	if o.Continue == "" {
		if all := s.objects[gvk.GroupKind()]; all != nil {
			for _, e := range all.sorted {
				if (o.Namespace == "" || e.obj.GetNamespace() == o.Namespace) &&
					(o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(e.obj.GetLabels()))) {
					rest = append(rest, e)
				}
			}
		}
	} else {
		held, ok := s.pages[o.Continue]
		if !ok {
			return errExpired
		}
		delete(s.pages, o.Continue)
		rest = held
	}
	size := s.PageSize
	if o.Limit > 0 {
		size = min(size, int(o.Limit))
	}
	token := ""
	if len(rest) > size {
		s.pageToks++
		token = strconv.FormatInt(s.pageToks, 10)
		s.pages[token] = rest[size:]
		rest = rest[:size]
	}
	list.SetContinue(token)
	list.SetResourceVersion(strconv.FormatInt(s.version, 10))
	return c.fill(rest, list)
}

func (c *Client) fill(entries []*entry, list client.ObjectList) error {
	switch list := list.(type) {
	case *unstructured.UnstructuredList:
		list.Items = make([]unstructured.Unstructured, len(entries))
		for i, e := range entries {
			list.Items[i].Object = runtime.DeepCopyJSON(e.obj.Object)
		}
		return nil
	case *metav1.PartialObjectMetadataList:
		list.Items = make([]metav1.PartialObjectMetadata, len(entries))
		for i, e := range entries {
			if err := c.decode(e, &list.Items[i]); err != nil {
				return err
			}
		}
		return nil
	}
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	filled := reflect.MakeSlice(items.Type(), len(entries), len(entries))
	for i, e := range entries {
		item, ok := filled.Index(i).Addr().Interface().(runtime.Object)
		if !ok {
			return fmt.Errorf("list into %T", list)
		}
		if err := c.decode(e, item); err != nil {
			return err
		}
	}
	items.Set(filled)
	return nil
}

// Create creates an object.
func (c *Client) Create(_ context.Context, obj client.Object, opts ...client.CreateOption) error {
	o := (&client.CreateOptions{}).ApplyOptions(opts)
	u, err := c.unstructuredOf(obj)
	if err != nil {
		return err
	}
	r := Request{Verb: Create, ID: object.IDOf(u), DryRun: len(o.DryRun) > 0}
	return c.do(r, func() error {
		k, err := c.served(r, u.GroupVersionKind().GroupKind())
		if err != nil {
			return err
		}
		if c.cluster.find(k.GroupKind(), u.GetNamespace(), u.GetName()) != nil {
			return apierrors.NewAlreadyExists(k.resource(), u.GetName())
		}
		_, err = c.cluster.create(c.name, k, u, nil, r.DryRun)
		return err
	})
}

func (c *Client) unstructuredOf(obj client.Object) (*unstructured.Unstructured, error) {
	gvk, err := c.kindFor(obj)
	if err != nil {
		return nil, err
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// Delete deletes an object.
func (c *Client) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	gvk, err := c.kindFor(obj)
	if err != nil {
		return err
	}
	o := (&client.DeleteOptions{}).ApplyOptions(opts)
	r := Request{Verb: Delete, ID: idFor(gvk, obj.GetNamespace(), obj.GetName()), DryRun: len(o.DryRun) > 0}
	if o.Preconditions != nil {
		r.Preconditions = Preconditions{UID: o.Preconditions.UID, ResourceVersion: o.Preconditions.ResourceVersion}
	}
	return c.do(r, func() error {
		k, err := c.served(r, gvk.GroupKind())
		if err != nil {
			return err
		}
		return c.cluster.remove(c.name, k, r.ID.Namespace, r.ID.Name, r.Preconditions)
	})
}

// Patch applies an object, or patches its metadata and spec.
func (c *Client) Patch(_ context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	o := (&client.PatchOptions{}).ApplyOptions(opts)
	gvk, err := c.kindFor(obj)
	if err != nil {
		return err
	}
	r := Request{Verb: Patch, ID: idFor(gvk, obj.GetNamespace(), obj.GetName()), DryRun: len(o.DryRun) > 0}
	if patch.Type() != types.ApplyPatchType {
		return c.merge(r, obj, patch)
	}
	r.Verb = Apply
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || o.Force == nil || !*o.Force {
		return errors.New("the model applies unstructured objects, by force")
	}
	return c.do(r, func() error {
		k, err := c.served(r, gvk.GroupKind())
		if err != nil {
			return err
		}
		result, err := c.apply(k, u, o.FieldManager, r.DryRun)
		if err != nil {
			return err
		}
		u.Object = runtime.DeepCopyJSON(result.Object)
		return nil
	})
}

func (c *Client) apply(k *kind, config *unstructured.Unstructured, manager string, dryRun bool) (*unstructured.Unstructured, error) {
	e := c.cluster.find(k.GroupKind(), config.GetNamespace(), config.GetName())
	if e == nil {
		return c.cluster.create(c.name, k, config, map[string]fields{manager: fieldsOf(config.Object)}, dryRun)
	}
	return c.cluster.update(c.name, k, e, merged(e, config, manager), dryRun)
}

// Status returns the client of the status subresource.
func (c *Client) Status() client.SubResourceWriter { return statusClient{client: c} }

type statusClient struct {
	client.SubResourceWriter // nil: only Patch is used
	client                   *Client
}

// Patch patches the status.
func (s statusClient) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	gvk, err := s.client.kindFor(obj)
	if err != nil {
		return err
	}
	return s.client.merge(Request{Verb: Status, ID: idFor(gvk, obj.GetNamespace(), obj.GetName())}, obj, patch)
}

// merge applies a merge patch to the status, or to all but the status.
func (c *Client) merge(r Request, obj client.Object, patch client.Patch) error {
	if patch.Type() != types.MergePatchType {
		return fmt.Errorf("the model knows no %s", patch.Type())
	}
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	var content map[string]any
	if err := json.Unmarshal(data, &content); err != nil {
		return err
	}
	return c.do(r, func() error {
		k, err := c.served(r, r.ID.GroupKind())
		if err != nil {
			return err
		}
		e := c.cluster.find(k.GroupKind(), r.ID.Namespace, r.ID.Name)
		if e == nil {
			return apierrors.NewNotFound(k.resource(), r.ID.Name)
		}
		if version, ok := lookup(content, []string{"metadata", "resourceVersion"}).(string); ok && version != e.obj.GetResourceVersion() {
			return apierrors.NewConflict(k.resource(), r.ID.Name, errors.New("the object has been modified"))
		}
		if uid, ok := lookup(content, []string{"metadata", "uid"}).(string); ok && uid != string(e.obj.GetUID()) {
			return apierrors.NewConflict(k.resource(), r.ID.Name, errors.New("the UID is another"))
		}
		after := &entry{obj: e.obj.DeepCopy(), owners: e.owners}
		if r.Verb == Status {
			status, _ := content["status"].(map[string]any)
			content = map[string]any{"status": status}
		} else {
			delete(content, "status")
		}
		mergePatch(after.obj.Object, content)
		after.obj.SetResourceVersion(e.obj.GetResourceVersion())
		result, err := c.cluster.update(c.name, k, e, after, r.DryRun)
		if err != nil {
			return err
		}
		return c.decode(&entry{obj: result}, obj)
	})
}

// IsObjectNamespaced tells whether the kind of an object is namespaced.
func (c *Client) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	gvk, err := apiutil.GVKForObject(obj, c.scheme)
	if err != nil {
		return false, err
	}
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return false, err
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// GroupVersionKindFor returns the kind of an object.
func (c *Client) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(obj, c.scheme)
}
