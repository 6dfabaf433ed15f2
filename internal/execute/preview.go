package execute

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"

	"github.com/fluxcd/pkg/ssa"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
)

// Act is what an apply would do to an object.
type Act string

// The acts.
const (
	Create    Act = "create"
	Configure Act = "configure"
	Unchanged Act = "unchanged"
	// Skip leaves an object as it is because its metadata says so, or because it is a Job that has run.
	Skip Act = "skip"
	// Replace deletes an object and creates it anew, since it can't be changed in place.
	Replace Act = "replace"
	// Refuse is what the API server says no to.
	Refuse Act = "refuse"
	// Unclear is what nobody can tell before the apply.
	Unclear Act = "unclear"
)

// Effect is what an apply would do to one object.
type Effect struct {
	ID  object.ID
	Act Act
	// Live is the object as it is, and Applied as it would be; nil where it is not there, or not known.
	Live, Applied *unstructured.Unstructured
	// Why says why the object is skipped, replaced, refused or unclear.
	Why string
	// Err is the refusal.
	Err error
	// Compared says why the API server was not asked, so that the manifest was compared with the object; empty where it was.
	Compared string
}

// Preview does what Apply does, with every write as a dry-run, and object by object: it says of each what would become of it, in
// the order of the apply. An error means that the cluster did not answer.
func (e *Executor) Preview(ctx context.Context, req ApplyRequest) ([]Effect, error) {
	return e.preview(ctx, req, e.stages(req.Objects))
}

// preview goes through stages with a client that writes dry-runs only.
func (e *Executor) preview(ctx context.Context, req ApplyRequest, stages []stage) ([]Effect, error) {
	dry := *e
	dry.Client = DryRun(e.Client)
	e = &dry
	var all []Effect
	g := newGround()
	for _, stage := range stages {
		effects := make([]Effect, len(stage.objects))
		group := errgroup.Group{}
		group.SetLimit(max(1, e.Concurrency))
		for i, obj := range stage.objects {
			group.Go(func() (err error) {
				effects[i], err = e.effect(ctx, req, obj, g)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		for i, obj := range stage.objects {
			g.note(obj, effects[i])
		}
		all = append(all, effects...)
	}
	return all, nil
}

// effect finds out what would become of one object.
func (e *Executor) effect(ctx context.Context, req ApplyRequest, obj *unstructured.Unstructured, g ground) (Effect, error) {
	out := Effect{ID: object.IDOf(obj)}
	if why := g.brings(obj, e.Client); why != "" {
		out.Act, out.Compared, out.Applied = Create, why, obj
		return out, nil
	}
	live, err := e.read(ctx, []*unstructured.Unstructured{obj})
	if unanswered(err) {
		return out, err
	}
	if err != nil {
		out.Act, out.Why, out.Err = Refuse, err.Error(), err
		if lacksRight(err) && req.Compare {
			out.Act = Unclear
		}
		return out, nil
	}
	out.Live = live[out.ID]
	req, _ = e.leaveFilled(req, []*unstructured.Unstructured{obj}, live)
	switch {
	case out.Live == nil && req.HaveRun.Has(out.ID):
		out.Act, out.Why = Skip, "it has run"
		return out, nil
	case out.Live != nil && out.Live.GetDeletionTimestamp() != nil && !observe.IsSkipped(out.Live):
		out.Act, out.Why, out.Applied = Replace, "it is being deleted, and is created anew when it is gone", obj
		return out, nil
	}
	return e.tried(ctx, req, obj, live, g, out)
}

// tried asks the API server.
func (e *Executor) tried(ctx context.Context, req ApplyRequest, obj *unstructured.Unstructured, live liveObjects, g ground, out Effect) (Effect, error) {
	recorder := &recordingClient{Client: e.Client}
	asking := *e
	asking.Client = recorder
	changes, err := asking.manager(live, nil, nil).ApplyAll(ctx, []*unstructured.Unstructured{obj.DeepCopy()}, e.applyOptions(req))
	switch {
	case err == nil:
		out.Applied, out.Act = recorder.applied, actOf(changes)
		if out.Act == Skip {
			out.Why = "its metadata takes it out of the apply"
		}
		return out, nil
	case unanswered(err):
		return out, err
	case lacksRight(err) && req.Compare:
		return compared(obj, out, err), nil
	case g.changes(obj):
		out.Act, out.Why = Unclear, "its definition changes with the same revision, and decides: "+err.Error()
		return out, nil
	}
	if err = e.mayRecreate(ctx, req.Owner, req.Force, obj, out.Live, err); err != nil {
		out.Act, out.Why, out.Err = Refuse, err.Error(), err
		return out, nil
	}
	out.Act, out.Why, out.Applied = Replace, "an immutable field changes, and force lets it be recreated", obj
	return out, nil
}

// actOf is what ApplyAll says of the only object that it was given.
func actOf(changes *ssa.ChangeSet) Act {
	for _, entry := range changes.Entries {
		switch entry.Action {
		case ssa.CreatedAction:
			return Create
		case ssa.ConfiguredAction:
			return Configure
		case ssa.SkippedAction:
			return Skip
		default:
			return Unchanged
		}
	}
	return Unchanged
}

// recordingClient keeps what the last dry-run of an apply made of the one object that it is used for.
type recordingClient struct {
	client.Client
	applied *unstructured.Unstructured
}

// Patch keeps the answer to an apply.
func (c *recordingClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	err := c.Client.Patch(ctx, obj, patch, opts...)
	if u, ok := obj.(*unstructured.Unstructured); ok && err == nil && patch.Type() == types.ApplyPatchType {
		c.applied = u.DeepCopy()
	}
	return err
}

// ground is what objects of a later stage stand on, and what becomes of it with the same revision.
type ground struct {
	newNamespaces          map[string]bool
	newKinds, changedKinds map[schema.GroupKind]bool
}

func newGround() ground {
	return ground{newNamespaces: map[string]bool{}, newKinds: map[schema.GroupKind]bool{}, changedKinds: map[schema.GroupKind]bool{}}
}

func (g ground) note(obj *unstructured.Unstructured, e Effect) {
	switch e.ID.GroupKind().String() {
	case "Namespace":
		g.newNamespaces[e.ID.Name] = e.Live == nil || e.Act == Replace
	case "CustomResourceDefinition.apiextensions.k8s.io":
		gk := definedBy(obj)
		g.newKinds[gk] = true
		g.changedKinds[gk] = e.Act != Unchanged && e.Act != Skip
	}
}

// brings says why an object can't be dry-run: what it stands on comes with the same revision.
func (g ground) brings(obj *unstructured.Unstructured, c client.Client) string {
	gvk := obj.GroupVersionKind()
	if g.newKinds[gvk.GroupKind()] {
		if _, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); meta.IsNoMatchError(err) {
			return "its CustomResourceDefinition comes with the same revision"
		}
	}
	if g.newNamespaces[obj.GetNamespace()] {
		return "its Namespace comes with the same revision"
	}
	return ""
}

func (g ground) changes(obj *unstructured.Unstructured) bool {
	return g.changedKinds[obj.GroupVersionKind().GroupKind()]
}

// definedBy is the kind that a CustomResourceDefinition defines.
func definedBy(definition *unstructured.Unstructured) schema.GroupKind {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	return schema.GroupKind{Group: group, Kind: kind}
}

// unanswered tells whether an error says that nobody answered.
func unanswered(err error) bool {
	var transport *url.Error
	return errors.As(err, &transport) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// missingVerb is what the API server says of a user that lacks a right. Quotas and webhooks say no in the same way, but not in
// these words.
var missingVerb = regexp.MustCompile(`User "[^"]*" cannot [a-z]+ resource`)

func lacksRight(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Reason == metav1.StatusReasonForbidden && missingVerb.MatchString(err.Error())
}

// compared stands in for a dry-run that is not allowed: the manifest is compared with the object, field by field.
func compared(obj *unstructured.Unstructured, out Effect, refusal error) Effect {
	out.Compared = fmt.Sprintf("you may not dry-run it (%s)", missingVerb.FindString(refusal.Error()))
	out.Act, out.Applied = Create, obj
	if out.Live == nil {
		return out
	}
	merged, same := overlaid(out.Live.Object, obj.Object)
	out.Applied = &unstructured.Unstructured{Object: merged.(map[string]any)} //nolint:forcetypeassert // made of a map
	if out.Act = Configure; same {
		out.Act = Unchanged
	}
	return out
}

// DryRun is a client whose writes are dry-runs, and that deletes nothing at all: not every server that is behind an API has to
// know what a dry-run is.
func DryRun(c client.Client) client.Client { return dryClient{Client: client.NewDryRunClient(c)} }

type dryClient struct{ client.Client }

var errNoDelete = errors.New("a preview deletes nothing")

// Delete refuses.
func (dryClient) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return errNoDelete
}

// DeleteAllOf refuses.
func (dryClient) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errNoDelete
}
