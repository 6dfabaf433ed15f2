package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/testkit/modelcluster"
)

// fluxNamespace is where the Kustomizations and their sources are.
const fluxNamespace = "flux-system"

var scheme = func() *runtime.Scheme {
	s, err := app.NewScheme()
	if err != nil {
		panic(err)
	}
	return s
}()

// world is one simulated cluster with everything around it. All that happens in it follows from the seed.
type world struct {
	options Options
	rng     *rand.Rand
	now     time.Time
	step    int64

	cluster   *modelcluster.Cluster
	sources   []*source
	names     []string // of the Kustomizations
	processes []*process
	workers   map[string]*worker
	started   int // processes
	denied    map[string]bool
	calm      bool
	calmSince time.Time
	// confirming is true when somebody confirms what is asked once all is calm; digests are those that people know.
	confirming bool
	digests    []string

	artifacts map[string]tree
	renders   map[string]render
	// byDigest has the same by what is rendered.
	byDigest map[string]render
	// rollsBack is true in a world in which people ask for rollbacks; commands counts what they said.
	rollsBack bool
	commands  int
	// damaged is true once somebody damaged a stored revision.
	damaged bool
	counter int

	// typed has what was decoded of late.
	typed map[*unstructured.Unstructured]*v1.Kustomization

	// drawn counts the events and faults that were drawn; happened are those that were not skipped.
	drawn    int64
	happened []int64

	truth     truth
	stats     *Stats
	trace     []string
	violation error
}

// source is a GitRepository and all that it ever published.
type source struct {
	name, prefix string
	published    []publication
}

// publication is an artifact from the step on at which it was published. Nothing is published while digest is empty.
type publication struct {
	step             int64
	revision, digest string
	tree             tree
}

func newWorld(o Options, stats *Stats) *world {
	w := &world{
		options: o, rng: rand.New(rand.NewPCG(o.Seed, 7)), stats: stats, //nolint:gosec // repeatable on purpose
		now:     time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		workers: map[string]*worker{}, denied: map[string]bool{},
		typed: map[*unstructured.Unstructured]*v1.Kustomization{}, artifacts: map[string]tree{}, renders: map[string]render{}, byDigest: map[string]render{},
	}
	w.truth = newTruth(w)
	w.confirming = chance(w.rng, 2)
	w.rollsBack = chance(w.rng, 2)
	w.cluster = modelcluster.New(func() time.Time { return w.now })
	w.cluster.PageSize = 1 + w.rng.IntN(8)
	w.cluster.Changed = w.changed
	w.cluster.Deleting = w.checkDelete
	for _, ns := range []string{fluxNamespace, appsNamespace, "default", "holdfast-system"} {
		w.cluster.Create("admin", thing("v1", "Namespace", "", ns, nil))
	}
	w.names = []string{"one", "two", "three"}[:2+w.rng.IntN(2)]
	w.sources = []*source{{name: "main"}}
	if chance(w.rng, 3) {
		w.sources = append(w.sources, &source{name: "other", prefix: "other-"})
	}
	for _, s := range w.sources {
		w.cluster.Create("admin", thing("source.toolkit.fluxcd.io/v1", "GitRepository", fluxNamespace, s.name,
			map[string]any{"spec": map[string]any{"url": "https://git.example/" + s.name, "interval": "1m"}}))
		w.publish(s, grow(w.rng, s.prefix, w.pathsOf(s)))
	}
	w.startProcess()
	for _, name := range w.names {
		w.createKustomization(name)
	}
	return w
}

// sourceFor is the source of a Kustomization: the last one follows the second source if there is one.
func (w *world) sourceFor(name string) *source {
	if len(w.sources) > 1 && name == w.names[len(w.names)-1] {
		return w.sources[1]
	}
	return w.sources[0]
}

func (w *world) pathsOf(s *source) []string {
	var paths []string
	for _, name := range w.names {
		if w.sourceFor(name) == s {
			paths = append(paths, "./"+name)
		}
	}
	return paths
}

func (w *world) createKustomization(name string) {
	spec := fluxv1.KustomizationSpec{
		Interval:      metav1.Duration{Duration: 10 * time.Minute},
		RetryInterval: &metav1.Duration{Duration: 30 * time.Second},
		Timeout:       &metav1.Duration{Duration: time.Duration(1+w.rng.IntN(3)) * time.Minute},
		Path:          "./" + name,
		Prune:         true,
		Wait:          chance(w.rng, 2),
		SourceRef:     fluxv1.CrossNamespaceSourceReference{Kind: sourcev1.GitRepositoryKind, Name: w.sourceFor(name).name},
	}
	if w.rollsBack {
		spec.Timeout.Duration /= 4
	}
	if name != w.names[0] && chance(w.rng, 4) {
		spec.DependsOn = []fluxv1.DependencyReference{{Name: w.names[0]}}
	}
	ks := &v1.Kustomization{Spec: v1.KustomizationSpec{KustomizationSpec: spec}}
	ks.Name, ks.Namespace = name, fluxNamespace
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ks)
	if err != nil {
		panic(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(v1.GroupVersion.WithKind(v1.KustomizationKind))
	if chance(w.rng, 2) || w.rollsBack {
		_ = unstructured.SetNestedMap(content, w.drawRollout(), "spec", "rollout") // the path is a map, as built above
	}
	w.cluster.Create("admin", u)
}

// publish makes a tree the newest revision of a source.
func (w *world) publish(s *source, t tree) {
	w.counter++
	revision := fmt.Sprintf("main@sha1:%08d", w.counter)
	w.offer(s, publication{revision: revision, digest: fmt.Sprintf("sha256:%s%064d", s.prefix, w.counter), tree: t})
}

// offer makes a publication, new or old, what the source has.
func (w *world) offer(s *source, p publication) {
	p.step = w.step
	s.published = append(s.published, p)
	w.artifacts[p.digest] = p.tree
	w.cluster.Edit("source-controller", sourceID(s), func(u *unstructured.Unstructured) {
		u.Object["status"] = map[string]any{"artifact": map[string]any{
			"revision": p.revision, "digest": p.digest, "path": s.name + "/" + p.revision,
			"url": "http://source/" + p.revision, "lastUpdateTime": "2026-03-01T12:00:00Z",
		}}
	})
	for _, name := range w.names {
		if w.sourceFor(name) == s {
			w.wake(name)
		}
	}
}

func sourceID(s *source) object.ID {
	return object.ID{Group: "source.toolkit.fluxcd.io", Kind: "GitRepository", Namespace: fluxNamespace, Name: s.name}
}

func kustomizationID(name string) object.ID {
	return object.ID{Group: v1.GroupVersion.Group, Kind: v1.KustomizationKind, Namespace: fluxNamespace, Name: name}
}

func (s *source) newest() publication { return s.published[len(s.published)-1] }

// since returns what was on offer at a step and everything after that.
func (s *source) since(step int64) []publication {
	i := len(s.published) - 1
	for i > 0 && s.published[i].step > step {
		i--
	}
	return s.published[i:]
}

// rendered is what an artifact builds to at a path.
func (w *world) rendered(digest, path string) render {
	key := digest + " " + path
	r, ok := w.renders[key]
	if !ok {
		r = w.artifacts[digest].render(path)
		w.renders[key], w.byDigest[r.digest] = r, r
	}
	return r
}

// startProcess starts a controller, which looks at every Kustomization at once.
func (w *world) startProcess() {
	w.started++
	p := &process{name: fmt.Sprintf("holdfast-%d", w.started), workers: map[client.ObjectKey]*worker{}, watches: w.newWatches()}
	for _, name := range w.names {
		key := keyOf(fluxNamespace, name)
		k := w.newWorker(p, key)
		p.workers[key], w.workers[k.name] = k, k
	}
	w.processes = append(w.processes, p)
}

// killProcess ends a process wherever its passes stand.
func (w *world) killProcess(p *process) {
	for _, name := range w.names {
		p.workers[keyOf(fluxNamespace, name)].kill()
	}
	p.watches.stop()
	w.processes = slices.DeleteFunc(w.processes, func(other *process) bool { return other == p })
}

// each calls visit with every worker of every process that lives.
func (w *world) each(visit func(*worker)) {
	for _, p := range w.processes {
		for _, name := range w.names {
			visit(p.workers[keyOf(fluxNamespace, name)])
		}
	}
}

// wake delivers an event about a Kustomization, sometimes late.
func (w *world) wake(name string) {
	at := w.now
	if !w.calm && chance(w.rng, 6) {
		at = at.Add(time.Duration(w.rng.IntN(40)) * time.Second)
	}
	w.each(func(k *worker) {
		if k.key.Name == name {
			k.wake(at)
		}
	})
}

// skips tells whether the event or fault that was drawn now is not to happen.
func (w *world) skips() bool {
	w.drawn++
	if w.options.Skip[w.drawn] {
		return true
	}
	w.happened = append(w.happened, w.drawn)
	return false
}

// apart lets something happen with random numbers of its own, so that whatever comes after it is drawn as if it did not.
func (w *world) apart(happen func()) {
	outer, seed := w.rng, w.rng.Uint64()
	if w.skips() {
		return
	}
	w.rng = rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // repeatable on purpose
	happen()
	w.rng = outer
}

// say adds a line to the history.
func (w *world) say(format string, args ...any) {
	if w.options.Trace {
		w.trace = append(w.trace, fmt.Sprintf("%6d %s ", w.step, w.now.Format("15:04:05"))+fmt.Sprintf(format, args...))
	}
}

// fail ends the run with a violation. The first one counts.
func (w *world) fail(rule, format string, args ...any) {
	if w.violation == nil {
		w.violation = fmt.Errorf("step %d: %s: %s", w.step, rule, fmt.Sprintf(format, args...))
		w.say("VIOLATION %v", w.violation)
	}
}

// kustomization is a Kustomization as it is stored now, nil if there is none.
func (w *world) kustomization(name string) *v1.Kustomization {
	return w.decoded(w.cluster.Get(kustomizationID(name)))
}

// decoded is a Kustomization as it was stored once. It must not be changed.
func (w *world) decoded(u *unstructured.Unstructured) *v1.Kustomization {
	if u == nil {
		return nil
	}
	ks := w.typed[u]
	if ks == nil {
		if len(w.typed) > maxTyped {
			clear(w.typed)
		}
		ks = decoded(u)
		w.typed[u] = ks
	}
	return ks
}

// maxTyped bounds the decoded states that are kept.
const maxTyped = 500

func decoded(u *unstructured.Unstructured) *v1.Kustomization {
	if u == nil {
		return nil
	}
	ks := &v1.Kustomization{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, ks); err != nil {
		panic(err)
	}
	return ks
}

func isReady(ks *v1.Kustomization) bool {
	for _, c := range ks.Status.Conditions {
		if c.Type == meta.ReadyCondition {
			return c.Status == metav1.ConditionTrue
		}
	}
	return false
}
