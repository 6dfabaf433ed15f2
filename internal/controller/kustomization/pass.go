package kustomization

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/target"
)

// pass is one reconciliation of one Kustomization.
type pass struct {
	*Reconciler
	// start is the object as it was read, and before as it was last stored. ks is changed as the pass goes on: its status,
	// and its finalizer.
	start, before, ks *v1.Kustomization
	mem               *memory
	now               time.Time

	// reached is where and as whom the pass works. Executor, Observer and Mapper are those of the target; they hide the
	// Reconciler's, so that no step can use the controller's own rights by accident. None of them is there before reach.
	reached  *target.Target
	Executor *execute.Executor
	Observer *observe.Observer
	Mapper   apimeta.RESTMapper

	artifact  *meta.Artifact
	built     *build.Result
	inventory inventory.Inventory
	rollout   v1.RolloutStatus
	plan      plan.Plan
	events    []event
	// asked is true when a person asked for a reconciliation that was not taken up yet.
	asked bool
	// watched is true when events announce the changes that this Kustomization waits for.
	watched bool
	// planned is true when plan speaks of the build of this pass.
	planned bool
	// applied is true when every object was applied in this pass or in one before it that still counts.
	applied bool
	// changed is true when this pass applied a change to a managed object.
	changed bool
	// toldSkipped is true when an event of this pass lists what was skipped in a prune.
	toldSkipped bool
	// refusals are the deletions that the API server did not accept in this pass.
	refusals []string
	// rivals are the objects of the build that must not be applied.
	rivals object.Set
	// wanted is the build of the source while a stored revision takes its place in built.
	wanted *build.Result
	// course is the choice between the two.
	course plan.Course
	// buildFault is why the source could not be built, while a person's choice makes up for it.
	buildFault *outcome
	// awaitsWord is true when the verdict waits for a word of how a Job ended that is gone.
	awaitsWord bool
	// followed are the Jobs of a healthy build that have not ended.
	followed []object.ID
	// noPlace is why the Namespace of a Job may not be read, so that nothing is remembered of it.
	noPlace string
	// independent is true when dependencies were not looked at for a person's choice.
	independent bool
	// noRollback says why a failed revision is not rolled back, storeFault why one can't be stored, and trimFault why one that is
	// not needed any more is still stored.
	noRollback, storeFault, trimFault string
	// stage is what the pass is at, in Flux's words. The condition Reconciling shows it when the pass fails there.
	stage string
	// healthText is what keeps the build from being healthy, in Flux's words.
	healthText string
}

// step is one part of a pass. It returns nil to go on, or the outcome that ends the pass.
type step func(context.Context) *outcome

// state is how a pass ended. Each gives one set of conditions; see conditions.go.
type state int

const (
	// stateReady: the wanted revision is applied and, where that was asked for, healthy.
	stateReady state = iota
	// stateProgressing: on the way; the next pass goes on.
	stateProgressing
	// stateWaiting: the source or a dependency is not there yet; no fault of this Kustomization.
	stateWaiting
	// stateFailed: something said no; tried again at the retry interval.
	stateFailed
	// stateStalled: nothing will move without a change by a person.
	stateStalled
)

// outcome is how a pass ended, what a person reads, and when to come back.
type outcome struct {
	state   state
	reason  string
	message string
	// after is the time until the next pass; zero waits for an event.
	after time.Duration
	// err is for faults outside the pipeline: the queue backs off.
	err error
	// quiet suppresses the Warning event of a failure.
	quiet bool
	// busy is true when nothing was built only because another build with remote bases was running.
	busy bool
}

func (p *pass) run(ctx context.Context) outcome {
	for _, s := range []step{
		p.checkSpec, p.checkExpressions, p.resolve, p.checkDependencies, p.reach, p.buildDesired, p.steer, p.checkKinds, p.settle, p.withholdRivals, p.record, p.makeWay, p.apply,
		p.verify, p.keepRevision, p.prune,
	} {
		if out := s(ctx); out != nil {
			return *out
		}
	}
	return p.verdict()
}

// at says what the pass is at with a revision.
func (p *pass) at(doing, revision string) string {
	p.stage = fmt.Sprintf("%s for revision %s with a timeout of %s", doing, revision, p.timeout())
	return p.stage
}

// The stages of a pass, as the condition Reconciling names them.
const (
	fetching  = "Fetching manifests"
	building  = "Building manifests"
	detecting = "Detecting drift"
	checking  = "Running health checks"
)

// revision is the source revision of this pass.
func (p *pass) revision() string {
	if p.artifact == nil {
		return ""
	}
	return p.artifact.Revision
}

// timeout is how long a verification may take.
func (p *pass) timeout() time.Duration { return p.ks.Flux().GetTimeout() }

// retryInterval is the time until a failed pass is repeated.
func (p *pass) retryInterval() time.Duration { return p.ks.Flux().GetRetryInterval() }

// judged tells whether the user asked for a verdict on health before Ready.
// Where a failure is rolled back there has to be one, and so for a stored revision.
func (p *pass) judged() bool { return p.waits() || len(p.ks.Spec.HealthChecks) > 0 || p.course.Back }

// waits tells whether every object of the build counts for the verdict.
func (p *pass) waits() bool {
	return p.ks.Spec.Wait || len(p.ks.Spec.HealthChecks) == 0 && p.resolved().Recovery.OnFailure == v1.OnFailureRollback
}

// isAsked tells whether the annotation holds a request that status does not name as handled.
func isAsked(ks *v1.Kustomization) bool {
	at, ok := meta.ReconcileAnnotationValue(ks.GetAnnotations())
	return ok && at != ks.Status.GetLastHandledReconcileRequest()
}

// acknowledge writes the request down as handled. It goes into a status write that also says what became of it, since
// a client that waits for it would take an older result for the answer.
func (p *pass) acknowledge() {
	if at, ok := meta.ReconcileAnnotationValue(p.ks.GetAnnotations()); ok {
		p.ks.Status.SetLastHandledReconcileRequest(at)
	}
}
