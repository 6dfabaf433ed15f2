package usage_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

const rbacVersion = "apiVersion: rbac.authorization.k8s.io/v1\n"

func inShop(group, kind, name string) object.ID {
	return object.ID{Group: group, Kind: kind, Namespace: "shop", Name: name}
}

// What is stale itself is a user while it is kept, and what it refers to is kept with it, however long the chain.
func TestAmongStaleObjects(t *testing.T) {
	const rbac = "rbac.authorization.k8s.io"
	account, secret := inShop("", "ServiceAccount", "bot"), inShop("", "Secret", "pull")
	binding, role := inShop(rbac, "RoleBinding", "bot"), inShop(rbac, "Role", "bot")
	config, thing := inShop("", "ConfigMap", "app-g5b2m5gtd8"), inShop("example.com", "Thing", "t")
	accountDoc := "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: bot}\nimagePullSecrets: [{name: pull}]"
	bindingDoc := rbacVersion + "kind: RoleBinding\nmetadata: {name: bot}\nroleRef: {kind: Role, name: bot}\nsubjects: [{kind: ServiceAccount, name: bot}]"
	thingDoc := "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\nspec: {config: app-g5b2m5gtd8}"
	all := object.NewSet(account, secret, binding, role, config, thing)
	for name, tt := range map[string]struct {
		live          []string
		leaving, kept object.Set
		want          []object.ID
	}{
		"all go":                      {live: []string{accountDoc, bindingDoc, thingDoc}, leaving: all},
		"a pod runs as the account":   {live: []string{accountDoc, bindingDoc, podDoc("p", "Running", "{serviceAccountName: bot, containers: [{name: c}]}")}, leaving: all, want: []object.ID{account, secret, binding, role}},
		"the account is kept":         {live: []string{accountDoc, bindingDoc}, leaving: object.NewSet(secret, binding, role), kept: object.NewSet(account), want: []object.ID{secret, binding, role}},
		"the account is wanted":       {live: []string{accountDoc, bindingDoc}, leaving: object.NewSet(secret, binding, role), want: []object.ID{secret}},
		"the binding is wanted":       {live: []string{bindingDoc}, leaving: object.NewSet(role), want: []object.ID{role}},
		"the custom resource is kept": {live: []string{thingDoc}, leaving: object.NewSet(config), kept: object.NewSet(thing), want: []object.ID{config}},
		"the custom resource lives":   {live: []string{thingDoc}, leaving: object.NewSet(config), want: []object.ID{config}},
		"a workload that goes":        {live: []string{"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {serviceAccountName: bot, containers: [{name: c}]}}}"}, leaving: object.NewSet(account, inShop("apps", "Deployment", "web")), want: []object.ID{account}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := usage.Among(all, objects(t, tt.live...), usage.Stale{Leaving: tt.leaving, Kept: tt.kept})
			var held []object.ID
			for id := range got {
				held = append(held, id)
			}
			slices.SortFunc(held, object.Compare)
			slices.SortFunc(tt.want, object.Compare)
			if err != nil || !slices.Equal(held, tt.want) {
				t.Errorf("in use are %v (%v), want %v", held, err, tt.want)
			}
		})
	}
}

// Two custom resources with hashed configs that mention each other go together, unless something else names one of them.
func TestObjectsThatOnlyHoldEachOther(t *testing.T) {
	a, b := inShop("", "ConfigMap", "a-g5b2m5gtd8"), inShop("", "ConfigMap", "b-g5b2m5gtd8")
	thing := func(name, names string) string {
		return "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: " + name + "}\nspec: {config: " + names + "}"
	}
	mapThat := func(name, names string) string {
		return "apiVersion: other.com/v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\nspec: {config: " + names + "}"
	}
	ids := object.NewSet(a, b, inShop("other.com", "ConfigMap", a.Name), inShop("other.com", "ConfigMap", b.Name))
	circle := []string{mapThat(a.Name, b.Name), mapThat(b.Name, a.Name)}
	got, err := usage.Among(ids, objects(t, circle...), usage.Stale{Leaving: ids})
	if err != nil || len(got) > 0 {
		t.Errorf("in use: %v (%v)", got, err)
	}
	got, err = usage.Among(ids, objects(t, append(circle, thing("t", a.Name))...), usage.Stale{Leaving: ids})
	if err != nil || len(got) != len(ids) {
		t.Errorf("in use: %v (%v), want all", got, err)
	}
}

func TestSources(t *testing.T) {
	const rbac = "rbac.authorization.k8s.io"
	stale := usage.Stale{Leaving: object.NewSet(inShop("", "ServiceAccount", "bot"))}
	for id, want := range map[object.ID]int{
		inShop("", "Secret", "s"): 3, inShop("", "Service", "s"): 5, inShop("", "ConfigMap", "c"): 1, inShop("", "ServiceAccount", "bot"): 0,
		inShop(rbac, "Role", "r"): 1, {Group: rbac, Kind: "ClusterRole", Name: "r"}: 2, inShop("apps", "Deployment", "d"): 0,
	} {
		if got := usage.Sources(id, usage.Stale{}); len(got) != want {
			t.Errorf("%s: %v, want %d", id, got, want)
		}
	}
	binding := inShop(rbac, "RoleBinding", "b")
	if got := usage.Sources(binding, usage.Stale{}); len(got) != 0 {
		t.Errorf("no account is stale, and %v are listed", got)
	}
	if got := usage.Sources(binding, stale); len(got) != 1 || got[0].Kind != "RoleBinding" {
		t.Errorf("%v, want the binding's own kind", got)
	}
}

// Keeping some of the stale objects changes neither the others nor what it was asked of.
func TestKeep(t *testing.T) {
	a, b, c, d := inShop("", "Secret", "a"), inShop("", "Secret", "b"), inShop("", "Secret", "c"), inShop("", "Secret", "d")
	before := usage.Stale{Leaving: object.NewSet(a, b), Kept: object.NewSet(c)}
	after := before.Keep(object.NewSet(b, d))
	if want := (usage.Stale{Leaving: object.NewSet(a), Kept: object.NewSet(b, c, d)}); !reflect.DeepEqual(after, want) {
		t.Errorf("%v, want %v", after, want)
	}
	if len(before.Leaving) != 2 || len(before.Kept) != 1 {
		t.Errorf("it was changed: %v", before)
	}
}
