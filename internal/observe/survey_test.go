package observe_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

var (
	account     = schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}
	ingress     = schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}
	roleBinding = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"}
	webhooks    = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}
)

// surveyor answers lists from objects by kind, and serves the kinds.
func surveyor(l *lists, kinds ...schema.GroupVersionKind) *observe.Observer {
	o := l.observer()
	m := mapperOf(append(kinds, webhooks)...).(*meta.DefaultRESTMapper)
	m.Add(webhooks, meta.RESTScopeRoot)
	o.Mapper, o.Discovery = m, &served{kinds: kinds}
	return o
}

func of(gvk schema.GroupVersionKind, name string, fields map[string]any) unstructured.Unstructured {
	u := unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace("shop")
	u.SetName(name)
	return u
}

func inShop(group, kind, name string) object.ID {
	return object.ID{Group: group, Kind: kind, Namespace: "shop", Name: name}
}

// Every user that is no workload is found where it is served.
func TestOtherUsers(t *testing.T) {
	secret, hashed := inShop("", "Secret", "s"), inShop("", "ConfigMap", "app-g5b2m5gtd8")
	l := &lists{page: 1, objects: map[string][]unstructured.Unstructured{
		"ServiceAccount": {of(account, "bot", map[string]any{"imagePullSecrets": []any{map[string]any{"name": "s"}}})},
		"Ingress":        {of(ingress, "i", map[string]any{"spec": map[string]any{"tls": []any{map[string]any{"secretName": "s"}}}})},
		"Thing":          {of(thing, "t", map[string]any{"spec": map[string]any{"config": hashed.Name}})},
	}}
	q := observe.Question{IDs: []object.ID{secret, hashed}, Around: object.NewSet(inShop("example.com", "Thing", "any"))}
	got := surveyor(l, account, ingress, thing).UsersOf(t.Context(), q)
	if u := got[secret]; !u.Known || !slices.Equal(u.Users, []string{"Ingress/shop/i", "ServiceAccount/shop/bot"}) {
		t.Errorf("secret: %+v", u)
	}
	if u := got[hashed]; !u.Known || !slices.Equal(u.Users, []string{"Thing/shop/t"}) {
		t.Errorf("config: %+v", u)
	}
	q.Around = object.NewSet(object.ID{Group: crdKind.Group, Kind: crdKind.Kind, Name: "things.example.com"})
	if u := surveyor(l, account, ingress, thing).UsersOf(t.Context(), q)[hashed]; !slices.Equal(u.Users, []string{"Thing/shop/t"}) {
		t.Errorf("config, whose user is of a kind that is defined here: %+v", u)
	}
}

// Each kind is listed once per namespace, and only where something that it can refer to is stale.
func TestSurveyListsWhatItNeeds(t *testing.T) {
	role, binding := inShop(roleBinding.Group, "Role", "r"), inShop(roleBinding.Group, "RoleBinding", "b")
	for name, tt := range map[string]struct {
		ids        []object.ID
		stale      usage.Stale
		want, none []string
	}{
		"config":              {ids: []object.ID{cm}, want: []string{"Pod"}, none: []string{"ServiceAccount", "Ingress", "RoleBinding", "ValidatingWebhookConfiguration"}},
		"secrets":             {ids: []object.ID{inShop("", "Secret", "a"), inShop("", "Secret", "b")}, want: []string{"Pod", "ServiceAccount", "Ingress"}, none: []string{"RoleBinding"}},
		"service":             {ids: []object.ID{inShop("", "Service", "a")}, want: []string{"Ingress", "ValidatingWebhookConfiguration"}, none: []string{"ServiceAccount"}},
		"role":                {ids: []object.ID{role}, want: []string{"RoleBinding"}, none: []string{"Pod"}},
		"binding":             {ids: []object.ID{binding}, none: []string{"RoleBinding", "Pod"}},
		"binding and account": {ids: []object.ID{binding}, stale: usage.Stale{Kept: object.NewSet(inShop("", "ServiceAccount", "x"))}, want: []string{"RoleBinding"}, none: []string{"Pod"}},
	} {
		l := &lists{page: 1}
		got := surveyor(l, account, ingress, roleBinding).UsersOf(t.Context(), observe.Question{IDs: tt.ids, Stale: tt.stale})
		for _, id := range tt.ids {
			if !got[id].Known {
				t.Errorf("%s: %+v", name, got[id])
			}
		}
		count := func(kind string) (n int) {
			for _, call := range l.calls {
				if strings.HasPrefix(call, kind+" in ") {
					n++
				}
			}
			return n
		}
		for _, kind := range tt.want {
			if count(kind) != 1 {
				t.Errorf("%s: %s is listed %d times", name, kind, count(kind))
			}
		}
		for _, kind := range tt.none {
			if count(kind) != 0 {
				t.Errorf("%s: %s is listed", name, kind)
			}
		}
	}
}

// A Gateway takes certificates from other namespaces, so that those of all namespaces are listed, once for all certificates.
func TestUsersOfOtherNamespaces(t *testing.T) {
	gateway := schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "Gateway"}
	elsewhere := of(gateway, "g", map[string]any{"spec": map[string]any{"listeners": []any{map[string]any{"tls": map[string]any{
		"certificateRefs": []any{map[string]any{"name": "s", "namespace": "shop"}}}}}}})
	elsewhere.SetNamespace("edge")
	l := &lists{page: 1, objects: map[string][]unstructured.Unstructured{"Gateway": {elsewhere}}}
	used, unused := inShop("", "Secret", "s"), object.ID{Kind: "Secret", Namespace: "other", Name: "s"}
	got := surveyor(l, gateway).UsersOf(t.Context(), observe.Question{IDs: []object.ID{used, unused}})
	if !slices.Equal(got[used].Users, []string{"Gateway/edge/g"}) || len(got[unused].Users) > 0 {
		t.Errorf("%+v", got)
	}
	var asked []string
	for _, call := range l.calls {
		if strings.HasPrefix(call, "Gateway ") {
			asked = append(asked, call)
		}
	}
	if want := []string{`Gateway in "" from ""`}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
}

// A kind that is not served is no user; one that can't be listed leaves the use unknown.
func TestOtherUsersNotListed(t *testing.T) {
	secret := inShop("", "Secret", "s")
	ask := func(o *observe.Observer) plan.Use {
		return o.UsersOf(t.Context(), observe.Question{IDs: []object.ID{secret}})[secret]
	}
	if u := ask(surveyor(&lists{page: 1}, account)); !u.Known || len(u.Users) > 0 {
		t.Errorf("nobody serves Ingress: %+v", u)
	}
	for name, err := range faults() {
		u := ask(surveyor(&lists{page: 1, fail: map[string]error{"Ingress": err}}, account, ingress))
		if u.Known || !strings.HasPrefix(u.Why, "list ingresses in namespace shop: ") {
			t.Errorf("%s: %+v", name, u)
		}
	}
	gone := surveyor(&lists{page: 1, fail: map[string]error{"Ingress": generic404()}}, account, ingress)
	if u := ask(gone); u.Known {
		t.Errorf("a 404, though discovery has the kind: %+v", u)
	}
	gone.Discovery = &served{kinds: []schema.GroupVersionKind{account}}
	if u := ask(gone); !u.Known {
		t.Errorf("not served any more, which the mapper does not know: %+v", u)
	}
	gone.Discovery = &served{err: fmt.Errorf("down")}
	if u := ask(gone); u.Known {
		t.Errorf("a 404, and discovery is down: %+v", u)
	}
	pods := surveyor(&lists{page: 1, fail: map[string]error{"Pod": generic404()}}, account)
	if u := ask(pods); u.Known {
		t.Errorf("a 404 for pods, which are always served: %+v", u)
	}
	broken := surveyor(&lists{page: 1}, account)
	broken.Mapper = failingMapper{err: apierrors.NewServiceUnavailable("down")}
	if u := ask(broken); u.Known {
		t.Errorf("discovery fails: %+v", u)
	}
}

// An account whose users can't be told stays, and so does its binding.
func TestUnknownUsersHoldOthers(t *testing.T) {
	bot, binding, lone := inShop("", "ServiceAccount", "bot"), inShop(roleBinding.Group, "RoleBinding", "b"), inShop(roleBinding.Group, "RoleBinding", "lone")
	subjects := func(name string) map[string]any {
		return map[string]any{"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": name, "namespace": "shop"}}}
	}
	l := &lists{page: 1, fail: map[string]error{"Job": fmt.Errorf("forbidden")}, objects: map[string][]unstructured.Unstructured{
		"RoleBinding": {of(roleBinding, "b", subjects("bot")), of(roleBinding, "lone", subjects("other"))},
	}}
	ids := []object.ID{bot, binding, lone}
	got := surveyor(l, roleBinding).UsersOf(t.Context(), observe.Question{IDs: ids, Stale: usage.Stale{Leaving: object.NewSet(ids...)}})
	if got[bot].Known || !slices.Equal(got[binding].Users, []string{"ServiceAccount/shop/bot"}) || !got[lone].Known || len(got[lone].Users) > 0 {
		t.Errorf("%+v", got)
	}
}

// The kinds that rules speak of are listed though the Kustomization has none of them. While one is served by nobody, what it
// would name has unknown users; for one that is being deleted there is nobody who could correct the rule.
func TestKindsOfReferenceRules(t *testing.T) {
	rule, err := usage.NewRule(thing.GroupKind(), "spec.config", "ConfigMap")
	if err != nil {
		t.Fatal(err)
	}
	secret := inShop("", "Secret", "s")
	l := &lists{page: 1, objects: map[string][]unstructured.Unstructured{
		"Thing": {of(thing, "t", map[string]any{"spec": map[string]any{"config": cm.Name}})}}}
	q := observe.Question{IDs: []object.ID{cm, secret}, References: []usage.Rule{rule}}
	if got := surveyor(l, thing).UsersOf(t.Context(), q); !got[cm].Known || !slices.Equal(got[cm].Users, []string{"Thing/shop/t"}) {
		t.Errorf("served: %+v", got[cm])
	}
	got := surveyor(&lists{page: 1}).UsersOf(t.Context(), q)
	if got[cm].Known || !strings.Contains(got[cm].Why, "no kind Thing.example.com") || !got[secret].Known {
		t.Errorf("not served: %+v, and what no rule is about: %+v", got[cm], got[secret])
	}
	q.Unserved = true
	if got := surveyor(&lists{page: 1}).UsersOf(t.Context(), q); !got[cm].Known {
		t.Errorf("not served, and being deleted: %+v", got[cm])
	}
}
