package simulation

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/artifact"
	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/controller/kustomization"
	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/revision"
	"github.com/holdfast-gitops/holdfast/internal/target"
	"github.com/holdfast-gitops/holdfast/internal/testkit/modelcluster"
)

// process is one controller process. What it remembers dies with it.
type process struct {
	name    string
	workers map[client.ObjectKey]*worker
	watches *watches
	// superseded is set when another process has taken over the lease. The process does not know it yet.
	superseded bool
}

// worker runs the passes of one Kustomization in one process. Its passes run in a goroutine that stands still at each
// request until the scheduler lets it go on, so that only one goroutine runs at any time.
type worker struct {
	world   *world
	process *process
	key     client.ObjectKey
	name    string
	rec     *kustomization.Reconciler

	// due is when the next pass begins, unless one is running; failures are errors in a row.
	due      time.Time
	failures int
	running  bool
	dead     bool
	// again is when an event that arrives while a pass is running asks for the next one; zero for none.
	again time.Time

	parked chan struct{}
	resume chan fate
	// request is the one that waits at the gate, or is being served.
	request modelcluster.Request
	fate    fate
	result  ctrl.Result
	err     error

	// roots are the artifacts that were fetched, by what stands for their directories.
	roots map[string]*meta.Artifact
	seen  sightings
	// built is what the last build has.
	built object.Set
	// began is when the pass began, leaving when the first one began that read of a Kustomization that it is being deleted.
	began, leaving time.Time
}

// fate is what becomes of a request.
type fate struct {
	fault fault
	// before is what the client gets without the request being served, after what it gets although it was.
	before, after error
	// crash ends the process after the request was served.
	crash bool
}

// sightings are the steps at which a pass looked at what its decisions stand on. What happens after such a look it can't
// know; see checkDelete.
type sightings struct {
	started, self, source, siblings int64
	// users has the step of the first list in a namespace since the last look at a stale object.
	users map[string]int64
	// deleted counts deletions since then that count against maxPrune.
	deleted int
}

var errDead = errors.New("the process is dead")

func (w *world) newWorker(p *process, key client.ObjectKey) *worker {
	k := &worker{world: w, process: p, key: key, name: p.name + "/" + key.Name, due: w.now,
		parked: make(chan struct{}), resume: make(chan fate), roots: map[string]*meta.Artifact{}}
	c := w.cluster.NewClient(k.name, scheme, k)
	observer := &observe.Observer{Reader: c, Mapper: c.Mapper(), Discovery: w.cluster.NewDiscovery(k)}
	k.rec = &kustomization.Reconciler{
		Options:   kustomization.Options{RequeueDependency: 5 * time.Second, OwnNamespace: "holdfast-system", Recorder: listener{w}},
		Client:    c,
		Reader:    c,
		Artifacts: k,
		Build:     k.build,
		Siblings:  observer,
		Targets: target.Only{Target: &target.Target{
			Observer: observer, Users: observer, Mapper: c.Mapper(), Executor: &execute.Executor{Client: c, Concurrency: 1},
		}},
		Revisions: &revision.Store{Client: c},
		Trigger:   p.watches.trigger,
		Now:       func() time.Time { return w.now },
	}
	return k
}

// start begins a pass and runs it up to its first request.
func (k *worker) start() {
	k.running, k.began = true, k.world.now
	k.seen = sightings{started: k.world.step, users: map[string]int64{}}
	go func() {
		defer func() {
			if r := recover(); r != nil {
				k.world.fail("never panics", "%v\n%s", r, debug.Stack())
			}
			k.running = false
			k.parked <- struct{}{}
		}()
		k.result, k.err = k.rec.Reconcile(log.IntoContext(context.Background(), logr.New(sink{listener{k.world}})), ctrl.Request{NamespacedName: k.key})
	}()
	<-k.parked
	k.settle()
	k.process.watches.rest()
}

// advance lets the request at the gate go on with its fate, and runs the pass up to the next one.
func (k *worker) advance(f fate) {
	k.resume <- f
	<-k.parked
	k.settle()
	k.process.watches.rest()
}

// settle says when the next pass of a worker begins whose pass is over.
func (k *worker) settle() {
	if k.running || k.dead {
		return
	}
	switch {
	case k.err != nil:
		k.world.checkText("an error", k.err.Error())
		k.failures++
		k.due = k.world.now.Add(min(time.Minute, time.Second<<min(k.failures, 6)))
	case k.result.RequeueAfter > 0:
		k.failures, k.due = 0, k.world.now.Add(k.result.RequeueAfter)
	default:
		k.failures, k.due = 0, time.Time{} // an event has to come
	}
	if at := k.again; !at.IsZero() {
		k.again = time.Time{}
		k.wake(at)
	}
}

// wake makes the worker begin a pass at the given time, or as soon after it as the one that is running is over.
func (k *worker) wake(at time.Time) {
	next := &k.due
	if k.running {
		next = &k.again
	}
	if next.IsZero() || at.Before(*next) {
		*next = at
	}
}

// kill ends the worker wherever it stands. What it has of the pass unwinds without another request being served.
func (k *worker) kill() {
	k.dead = true
	if k.running {
		k.advance(fate{})
	}
}

// Enter implements modelcluster.Gate.
func (k *worker) Enter(r modelcluster.Request) error {
	if k.dead {
		return errDead
	}
	k.request = r
	k.parked <- struct{}{}
	k.fate = <-k.resume
	if k.dead {
		return errDead
	}
	if k.fate.before == nil {
		k.note(r)
	}
	return k.fate.before
}

// Leave implements modelcluster.Gate.
func (k *worker) Leave(_ modelcluster.Request, err error) error {
	if k.fate.crash {
		k.dead = true
		return errDead
	}
	if k.fate.after != nil {
		return k.fate.after
	}
	return err
}

// note keeps the step at which a pass looks at something.
func (k *worker) note(r modelcluster.Request) {
	step, s := k.world.step, &k.seen
	switch {
	case r.Verb == modelcluster.Get && r.ID.Kind == v1.KustomizationKind && r.ID.Name == k.key.Name:
		s.self = step
		if ks := k.world.kustomization(k.key.Name); ks == nil || ks.DeletionTimestamp == nil {
			k.leaving = time.Time{}
		} else if k.leaving.IsZero() {
			k.leaving = k.began
		}
	case r.Verb == modelcluster.Get && r.ID.Kind == "GitRepository":
		s.source = step
	case r.Verb == modelcluster.Get && r.Metadata:
		clear(s.users)
		s.deleted = 0
	case r.Verb == modelcluster.List && r.ID.Kind == v1.KustomizationKind && r.ID.Namespace == "":
		if !r.Continue {
			s.siblings = step
		}
	case r.Verb == modelcluster.List:
		if _, ok := s.users[r.ID.Namespace]; !ok {
			s.users[r.ID.Namespace] = step
		}
	}
}

// fetchVerb is the request for an artifact, which goes to the source controller and not to the API server.
const fetchVerb modelcluster.Verb = "fetch"

// Open implements kustomization.Artifacts.
func (k *worker) Open(_ context.Context, a *meta.Artifact) (string, func(), error) {
	r := modelcluster.Request{Verb: fetchVerb, ID: object.ID{Kind: "Artifact", Name: a.Revision}}
	if err := k.Enter(r); err != nil {
		return "", nil, err
	}
	k.roots[a.Digest] = a
	return a.Digest, func() {}, k.Leave(r, nil)
}

// build renders what was fetched into a directory.
func (k *worker) build(root string, ks *v1.Kustomization, _ build.Options) (build.Result, error) {
	a := k.roots[root]
	if a == nil {
		return build.Result{}, errDead
	}
	r := k.world.rendered(a.Digest, ks.Spec.Path)
	if r.fails {
		return build.Result{}, fmt.Errorf("%s of %s does not build", ks.Spec.Path, a.Revision)
	}
	k.built = r.ids
	return build.Result{Objects: r.objects(), Digest: r.digest, Empty: r.empty}, nil
}

var errTransient = &artifact.TransientError{URL: "http://source/artifact", Err: errors.New("503")}
