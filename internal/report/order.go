package report

import (
	"cmp"
	"slices"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// withWaits fills in, for those that wait, which of their dependencies they wait for.
func withWaits(rows []Kustomization, all []v1.Kustomization) []Kustomization {
	states := map[string]State{}
	for _, k := range rows {
		states[k.Key()] = k.State
	}
	for i := range rows {
		if rows[i].State == Waiting {
			rows[i].WaitsFor = unhealthy(&all[i], states)
		}
	}
	return rows
}

// unhealthy are the dependencies that are not healthy or not there.
func unhealthy(ks *v1.Kustomization, states map[string]State) []string {
	var keys []string
	for _, key := range dependencies(ks) {
		if states[key] != Healthy {
			keys = append(keys, key)
		}
	}
	return keys
}

// dependencies are the Kustomizations in spec.dependsOn, as namespace/name.
func dependencies(ks *v1.Kustomization) []string {
	keys := make([]string, 0, len(ks.Spec.DependsOn))
	for _, d := range ks.Spec.DependsOn {
		namespace := d.Namespace
		if namespace == "" {
			namespace = ks.Namespace
		}
		keys = append(keys, namespace+"/"+d.Name)
	}
	return keys
}

// arranged puts first what needs a person, and those that wait under what they wait for.
func arranged(rows []Kustomization) []Kustomization {
	slices.SortStableFunc(rows, func(a, b Kustomization) int {
		return cmp.Or(
			cmp.Compare(slices.Index(urgency, a.State), slices.Index(urgency, b.State)),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	listed := map[string]bool{}
	for _, k := range rows {
		listed[k.Key()] = true
	}
	waiters := map[string][]Kustomization{}
	var roots []Kustomization
	for _, k := range rows {
		if len(k.WaitsFor) > 0 && listed[k.WaitsFor[0]] {
			waiters[k.WaitsFor[0]] = append(waiters[k.WaitsFor[0]], k)
		} else {
			roots = append(roots, k)
		}
	}
	out := make([]Kustomization, 0, len(rows))
	placed := map[string]bool{}
	var place func(Kustomization)
	place = func(k Kustomization) {
		if placed[k.Key()] {
			return
		}
		placed[k.Key()] = true
		out = append(out, k)
		for _, w := range waiters[k.Key()] {
			place(w)
		}
	}
	// The rows after the roots are those of a circle of dependencies, which has no root.
	for _, k := range append(roots, rows...) {
		place(k)
	}
	return out
}

func compareSources(a, b Source) int {
	return cmp.Or(
		cmp.Compare(slices.Index(urgency, a.State), slices.Index(urgency, b.State)),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
