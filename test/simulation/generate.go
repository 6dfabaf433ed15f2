package simulation

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// appsNamespace is where most of what is deployed goes; teamNamespace is itself deployed.
const (
	appsNamespace = "apps"
	teamNamespace = "team"
)

// directory is how a path of a tree is beside its components.
type directory struct {
	// Fails makes the build fail. Bare takes all manifests away, and Explicit says that this is meant.
	Fails, Bare, Explicit bool
}

// tree is the content of a source at one revision.
type tree struct {
	Components  []component
	Directories map[string]directory
}

func (t tree) clone() tree {
	next := tree{Components: slices.Clone(t.Components), Directories: map[string]directory{}}
	for path, d := range t.Directories {
		next.Directories[path] = d
	}
	return next
}

// render is what a path of a tree builds to.
type render struct {
	ids    object.Set
	digest string
	empty  build.Emptiness
	fails  bool
	// back is true for a stored revision.
	back bool
	// parts are the components that it is made of.
	parts []component
}

func (t tree) render(path string) render {
	d := t.Directories[path]
	r := render{ids: object.Set{}, fails: d.Fails}
	hash := fnv.New64a()
	for _, c := range t.Components {
		if c.Path != path || d.Bare {
			continue
		}
		r.parts = append(r.parts, c)
		fmt.Fprintf(hash, "%+v", c)
		for _, obj := range c.objects() {
			r.ids[object.IDOf(obj)] = struct{}{}
		}
	}
	if len(r.parts) == 0 {
		r.empty = build.EmptyUnexplained
		if d.Explicit {
			r.empty = build.EmptyExplicit
		}
	}
	r.digest = fmt.Sprintf("sha256:%016x", hash.Sum64())
	return r
}

// objects builds the objects anew, since whoever builds may change them.
func (r render) objects() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, c := range r.parts {
		all = append(all, c.objects()...)
	}
	return all
}

// grow returns a tree for the first revision.
func grow(rng *rand.Rand, prefix string, paths []string) tree {
	t := tree{Directories: map[string]directory{}}
	for i := range 2 + rng.IntN(3) {
		t.Components = append(t.Components, newApp(rng, fmt.Sprintf("%sapp%d", prefix, i), paths))
	}
	t.Components = append(t.Components, component{Kind: plainConfig, Name: prefix + "settings", Path: pick(rng, paths), Namespace: appsNamespace, Config: 1})
	if chance(rng, 2) {
		t.Components = append(t.Components, component{Kind: aJob, Name: prefix + "migrate", Path: pick(rng, paths), Namespace: appsNamespace, Config: 1, Image: 1, Way: rng.IntN(ways)})
	}
	if prefix != "" {
		return t
	}
	if chance(rng, 2) {
		path := pick(rng, paths)
		t.Components = append(t.Components, component{Kind: aNamespace, Name: teamNamespace, Path: path},
			component{Kind: plainConfig, Name: "team-settings", Path: path, Namespace: teamNamespace, Config: 1})
	}
	if chance(rng, 2) {
		path := pick(rng, paths)
		t.Components = append(t.Components, component{Kind: aDefinition, Name: "widgets", Path: path},
			component{Kind: aResource, Name: "gadget", Path: path, Namespace: appsNamespace, Config: 1})
	}
	return t
}

func newApp(rng *rand.Rand, name string, paths []string) component {
	c := component{Kind: anApp, Name: name, Path: pick(rng, paths), Namespace: appsNamespace, Config: 1, Image: 1,
		Replicas: rng.IntN(4), Secret: chance(rng, 3), Account: chance(rng, 3), Way: rng.IntN(ways),
		Workload: pick(rng, []string{"Deployment", "Deployment", "StatefulSet", "StatefulSet", "DaemonSet", "CronJob"})}
	if chance(rng, 4) {
		c.Partition = 1
	}
	c.Parallel = chance(rng, 2)
	return c
}

// change makes the next revision of a tree, with the given number of changes.
func (t tree) change(rng *rand.Rand, paths []string, counter int) tree {
	next := t.clone()
	for i := range 1 + rng.IntN(3) {
		next.changeOnce(rng, paths, counter, fmt.Sprintf("late%d-%d", counter, i))
	}
	return next
}

func (t *tree) changeOnce(rng *rand.Rand, paths []string, counter int, name string) {
	path := pick(rng, paths)
	var d directory
	switch rng.IntN(20) {
	case 0:
		d = directory{Fails: true}
	case 1:
		d = directory{Bare: true}
	case 2:
		d = directory{Bare: true, Explicit: true}
	}
	t.Directories[path] = d
	if len(t.Components) == 0 || chance(rng, 8) {
		t.Components = append(t.Components, newApp(rng, name, paths))
		t.sort()
		return
	}
	i := rng.IntN(len(t.Components))
	c := &t.Components[i]
	switch rng.IntN(14) {
	case 12:
		c.Suspend = !c.Suspend
	case 13:
		c.Prune = pick(rng, []string{"", "", "Immediate", "WhenHealthy", "WhenUnused", "Confirm", "Sometimes"})
	case 0, 1, 2, 3:
		c.Config = counter
	case 4:
		c.Image = counter
	case 5, 6:
		c.Broken, c.Config = true, counter
	case 7:
		c.Broken = false
	case 8, 9:
		t.move(rng, c, paths)
	case 10:
		t.Components = slices.Delete(t.Components, i, i+1)
	case 11:
		c.Replicas, c.Partition = rng.IntN(4), rng.IntN(2)
	}
	t.sort()
}

// move gives a component to another path. What needs another component moves with it or later, as people do it.
func (t *tree) move(rng *rand.Rand, c *component, paths []string) {
	c.Path = pick(rng, paths)
}

// mend takes everything out that keeps a revision from being healthy, given the paths that somebody follows. What needs a
// namespace or a definition comes from the path that has it, or not at all.
func (t tree) mend(followed []string) tree {
	next := t.clone()
	next.Directories = map[string]directory{}
	for _, path := range followed {
		next.Directories[path] = directory{Explicit: true} // if nothing is left there, that is meant
	}
	has := map[string]string{}
	for _, c := range next.Components {
		if slices.Contains(followed, c.Path) {
			has[c.Name] = c.Path
		}
	}
	for i := range next.Components {
		c := &next.Components[i]
		c.Broken, c.Partition = false, 0 // below a partition, a set stays at a broken revision for ever
		if needs := c.needs(); needs != "" {
			c.Path = has[needs]
		}
	}
	next.Components = slices.DeleteFunc(next.Components, func(c component) bool { return c.needs() != "" && has[c.needs()] == "" })
	return next
}

func (t *tree) sort() {
	slices.SortStableFunc(t.Components, func(a, b component) int { return cmp.Compare(a.Kind+a.Name, b.Kind+b.Name) })
}

func pick[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

// chance is true once in n.
func chance(rng *rand.Rand, n int) bool { return rng.IntN(n) == 0 }

func keyOf(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}
