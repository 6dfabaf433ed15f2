package kustomization

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/fluxcd/pkg/apis/meta"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/artifact"
	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/report"
	"github.com/holdfast-gitops/holdfast/internal/target"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// Previewer foresees what the controller would do, by the steps of the controller. It works with the rights of its configuration, and
// writes nothing: every write that it sends is a dry-run.
type Previewer struct {
	reconciler *Reconciler
	targets    *target.Targets
	// reviews asks what the caller may do.
	reviews client.Client
}

// NewPreviewer returns a previewer of a controller with the given options.
func NewPreviewer(config *rest.Config, httpClient *http.Client, scheme *runtime.Scheme, mapper apimeta.RESTMapper, o Options) (*Previewer, error) {
	r, err := assemble(connection{config, httpClient, scheme, mapper}, o, execute.DryRun)
	if err != nil {
		return nil, err
	}
	reviews, err := client.New(config, client.Options{HTTPClient: httpClient, Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &Previewer{reconciler: r, targets: r.Targets.(*target.Targets), reviews: reviews}, nil //nolint:forcetypeassert // assemble made it
}

// Proposal is what is looked at.
type Proposal struct {
	// Kustomization with the status that it has; without a UID it is one that does not exist yet.
	Kustomization *v1.Kustomization
	// Manifests stand in for the artifact of the source, under the name Revision; nil looks at what the source offers.
	Manifests artifact.Fetcher
	Revision  string
	// Transport fetches what the source offers; nil is the way of the controller.
	Transport http.RoundTripper
}

// Preview foresees what would become of a proposal. An error means that there is no answer.
func (v *Previewer) Preview(ctx context.Context, proposal Proposal) (report.PlanFacts, error) {
	ks := proposal.Kustomization.DeepCopy()
	facts := report.PlanFacts{Kustomization: proposal.Kustomization}
	compare, err := v.impersonation(ctx, ks, &facts)
	if err != nil {
		return facts, err
	}
	p := v.reconciler.fetchingWith(proposal.fetcher()).newPass(ks)
	for _, s := range []step{p.checkSpec, p.checkExpressions, p.propose(proposal), p.reach, p.mayReadInputs, p.buildWanted, p.settle, p.checkKinds, p.withholdRivals} {
		if out := s(ctx); out != nil {
			facts.Revision = p.revision()
			return p.notForeseen(facts, out)
		}
	}
	facts.Revision = p.revision()
	return facts, p.foresee(ctx, &facts, compare)
}

// fetcher gets what is looked at.
func (p Proposal) fetcher() artifact.Fetcher {
	if p.Manifests != nil {
		return p.Manifests
	}
	return artifact.NewReader(artifact.ReaderOptions{Transport: p.Transport})
}

// fetchingWith returns a reconciler that remembers nothing, with another fetcher.
func (r *Reconciler) fetchingWith(f artifact.Fetcher) *Reconciler {
	shelf := artifact.NewShelf(f)
	shelf.Idle = 0
	return &Reconciler{Options: r.Options, Client: r.Client, Reader: r.Reader, Artifacts: shelf, Build: r.Build, Targets: r.Targets,
		Identity: r.Identity, Siblings: r.Siblings, Revisions: r.Revisions, Now: r.Now}
}

// impersonation decides as whom to look: as the account of the Kustomization if the caller may, else as the caller. It returns whether
// rights that are missing are the caller's own, and says nothing about the controller.
func (v *Previewer) impersonation(ctx context.Context, ks *v1.Kustomization, facts *report.PlanFacts) (own bool, err error) {
	account := v.targets.AccountOf(ks)
	if ks.Spec.KubeConfig != nil {
		return false, nil
	}
	if account.Name == "" {
		return true, nil
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "serviceaccounts", Namespace: account.Namespace, Name: account.Name}}}
	if err := v.reviews.Create(ctx, review); err != nil {
		return false, fmt.Errorf("find out whether you may impersonate ServiceAccount/%s: %w", account, err)
	}
	if review.Status.Allowed {
		return false, nil
	}
	ks.Spec.ServiceAccountName = ""
	facts.Unseen = append(facts.Unseen, fmt.Sprintf("what ServiceAccount/%s may do: you may not impersonate it, so that this is what you may see and dry-run", account))
	return true, nil
}

// propose stands in for the step that finds the artifact.
func (p *pass) propose(proposal Proposal) step {
	if proposal.Manifests == nil {
		return p.resolve
	}
	return func(context.Context) *outcome {
		p.artifact = &meta.Artifact{Revision: proposal.Revision, Digest: "proposed"}
		return nil
	}
}

// mayReadInputs ends the preview where the caller may not read what the build takes from the cluster: that says nothing about the
// controller, which may.
func (p *pass) mayReadInputs(ctx context.Context) *outcome {
	if _, err := p.readInputs(ctx); apierrors.IsForbidden(err) {
		return &outcome{err: fmt.Errorf("read what the build takes from the cluster: %w", err)}
	}
	return nil
}

// notForeseen is the answer where a step of the pass ends it: what would be refused is a finding, what could not be read is an error.
func (p *pass) notForeseen(facts report.PlanFacts, out *outcome) (report.PlanFacts, error) {
	if out.err != nil {
		return facts, out.err
	}
	if out.state == stateWaiting || p.mem.fetchFailures > 0 {
		return facts, errors.New(out.message)
	}
	facts.Refused = out.message
	return facts, nil
}

// foresee asks what an apply would do, and the planner about what the build lacks.
func (p *pass) foresee(ctx context.Context, facts *report.PlanFacts, compare bool) error {
	haveRun, err := p.haveRun(ctx)
	if err != nil {
		return err
	}
	request := p.applyRequest(p.appliable(), haveRun)
	request.Fence, request.Compare = nil, compare
	if facts.Effects, err = p.Executor.Preview(ctx, request); err != nil {
		return err
	}
	facts.Withheld, facts.InPlace = p.rivals, p.built.InPlace
	facts.Hidden, facts.AllHidden = object.Set{}, p.built.SecretsAnywhere
	for _, id := range p.built.Decrypted {
		facts.Hidden[p.canonical(id)] = struct{}{}
	}
	_, course := plan.Steer(p.rollout, p.want(), p.said(), p.now)
	facts.Course = course
	p.foreseePrune(ctx, facts)
	facts.Old = p.generated(ctx)
	return nil
}

// foreseePrune asks the planner three times about the same facts: before the build is applied, after that, and once it is healthy.
// The other Kustomizations of the source are taken to have built the revision, and to have what they have now.
func (p *pass) foreseePrune(ctx context.Context, facts *report.PlanFacts) {
	f := p.factsOfBuild()
	f.Siblings = p.Siblings.Siblings(ctx, p.ks, p.now, 0)
	for i := range f.Siblings.List {
		if s := &f.Siblings.List[i]; s.SameSource {
			s.BuiltRevision = f.Build.Newest
			facts.Neighbours++
		}
	}
	if !f.Siblings.Known {
		facts.Unseen = append(facts.Unseen, "what other Kustomizations have: "+f.Siblings.Why)
	}
	f.Build.Applied, f.Build.Healthy = true, true
	p.look(ctx, &f)
	facts.Stale, facts.Claims = f.Stale, plan.Claims(f)
	facts.Healthy = plan.Prune(f)
	f.Build.Healthy = false
	facts.Applied = plan.Prune(f)
	f.Build.Applied = false
	facts.Before = plan.Prune(f)
}

// maxGenerated bounds the generated config that is read to tell what changed in it.
const maxGenerated = 200

// generated reads the generated ConfigMaps and Secrets that the build lacks, so that it can be told which of the new ones takes the
// place of which. What can't be read is shown as one that goes and one that comes.
func (p *pass) generated(ctx context.Context) map[object.ID]*unstructured.Unstructured {
	found := map[object.ID]*unstructured.Unstructured{}
	for _, e := range p.stale() {
		if e.ID.Group != "" || e.ID.Kind != "ConfigMap" && e.ID.Kind != "Secret" || !usage.HasHashSuffix(e.ID.Name) || len(found) == maxGenerated {
			continue
		}
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(e.ID.GroupKind().WithVersion("v1"))
		if err := p.Executor.Client.Get(ctx, types.NamespacedName{Namespace: e.ID.Namespace, Name: e.ID.Name}, obj); err == nil {
			found[e.ID] = obj
		}
	}
	return found
}
