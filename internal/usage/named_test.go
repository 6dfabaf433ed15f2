package usage_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

func ruleOf(t *testing.T, from, path, to string) usage.Rule {
	t.Helper()
	r, err := usage.NewRule(schema.ParseGroupKind(from), path, to)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A rule finds names without a hash, in every form that a path can take, in the reach of the object and nowhere else.
func TestRulesNameTargets(t *testing.T) {
	secret, config := inShop("", "Secret", "tls"), inShop("", "ConfigMap", "tls")
	far, part := object.ID{Kind: "Secret", Namespace: "other", Name: "tls"}, inShop("example.com", "Part", "tls")
	all := object.NewSet(secret, config, far, part)
	const thing = "Thing.example.com"
	doc := func(spec string) string {
		return "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\nspec: " + spec
	}
	for name, tt := range map[string]struct {
		live string
		rule usage.Rule
		want []object.ID
	}{
		"a field":                 {doc("{cert: tls}"), ruleOf(t, thing, "spec.cert", "Secret"), []object.ID{secret}},
		"as JSONPath":             {doc("{cert: tls}"), ruleOf(t, thing, "{$.spec.cert}", "ConfigMap"), []object.ID{config}},
		"a list of objects":       {doc("{certs: [{name: x}, {name: tls}]}"), ruleOf(t, thing, ".spec.certs[*].name", "Secret"), []object.ID{secret}},
		"a list of names":         {doc("{certs: [x, tls]}"), ruleOf(t, thing, "$.spec.certs[*]", "Secret"), []object.ID{secret}},
		"a field with dots":       {doc("{a.b: {c: tls}}"), ruleOf(t, thing, "spec['a.b'].c", "Secret"), []object.ID{secret}},
		"another custom resource": {doc("{part: tls}"), ruleOf(t, thing, "spec.part", "Part"), []object.ID{part}},
		"nothing there":           {doc("{}"), ruleOf(t, thing, "spec.cert", "Secret"), nil},
		"another name":            {doc("{cert: tls2}"), ruleOf(t, thing, "spec.cert", "Secret"), nil},
		"another kind":            {doc("{cert: tls}"), ruleOf(t, "Other.example.com", "spec.cert", "Secret"), nil},
		"a cluster-scoped one":    {doc("{cert: tls}"), ruleOf(t, thing, "spec.cert", "Secret"), []object.ID{far, secret}},
		"a pod that has ended":    {podDoc("p", "Succeeded", "{hostname: tls, serviceAccountName: x, containers: [{name: c}]}"), ruleOf(t, "Pod", "spec.hostname", "Secret"), nil},
		"a pod that runs":         {podDoc("p", "Running", "{hostname: tls, serviceAccountName: x, containers: [{name: c}]}"), ruleOf(t, "Pod", "spec.hostname", "Secret"), []object.ID{secret}},
	} {
		t.Run(name, func(t *testing.T) {
			live := objects(t, tt.live)
			if name == "a cluster-scoped one" {
				live[0].SetNamespace("")
			}
			got, err := usage.Among(all, live, usage.Stale{}, tt.rule)
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

// A rule that does not fit the object makes everything unknown, and says where.
func TestRuleThatDoesNotFit(t *testing.T) {
	live := objects(t, "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\nspec: {cert: {name: tls}}")
	_, err := usage.Among(object.NewSet(inShop("", "Secret", "tls")), live, usage.Stale{}, ruleOf(t, "Thing.example.com", "spec.cert", "Secret"))
	if err == nil || !strings.Contains(err.Error(), "Thing/shop/t: by the reference rule for Secret: field spec.cert: want a string") {
		t.Errorf("error is %v", err)
	}
}

// A stale custom resource that a rule keeps keeps what it names itself, and one that goes does not.
func TestRulesAreTransitive(t *testing.T) {
	part, secret := inShop("example.com", "Part", "p"), inShop("", "Secret", "s")
	rules := []usage.Rule{ruleOf(t, "Thing.example.com", "spec.part", "Part"), ruleOf(t, "Part.example.com", "spec.secret", "Secret")}
	partDoc := "apiVersion: example.com/v1\nkind: Part\nmetadata: {name: p}\nspec: {secret: s}"
	thingDoc := "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\nspec: {part: p}"
	both := object.NewSet(part, secret)
	got, err := usage.Among(both, objects(t, partDoc, thingDoc), usage.Stale{Leaving: both}, rules...)
	if err != nil || len(got[part]) != 1 || len(got[secret]) != 1 {
		t.Errorf("with the thing: %v %v", got, err)
	}
	if got, err = usage.Among(both, objects(t, partDoc), usage.Stale{Leaving: both}, rules...); err != nil || len(got) != 0 {
		t.Errorf("without: %v %v", got, err)
	}
}

func TestPathsThatAreRefused(t *testing.T) {
	for _, path := range []string{"", "{.spec", "spec.a[0]", "spec.a[?(@.b=='c')].d", "[*].a", "spec.a[*][*]", "spec..a", "spec.", "spec.a[1:2]", "$"} {
		if _, err := usage.NewRule(schema.GroupKind{Kind: "Thing"}, path, "Secret"); err == nil {
			t.Errorf("%q is a path", path)
		}
	}
	for _, kinds := range [][2]string{{"", "Secret"}, {"Thing", ""}} {
		if _, err := usage.NewRule(schema.GroupKind{Kind: kinds[0]}, "spec.a", kinds[1]); err == nil {
			t.Errorf("%q is a rule", kinds)
		}
	}
}

// Custom resources of well-known kinds name what they need by plain names.
func TestKnownPaths(t *testing.T) {
	for doc, want := range map[string][]object.ID{
		"apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: k}\nspec: {serviceAccountName: bot, postBuild: {substituteFrom: [{kind: ConfigMap, name: vars}]}}": {
			inShop("", "ConfigMap", "vars"), inShop("", "Secret", "vars"), inShop("", "ServiceAccount", "bot")},
		"apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: h}\nspec: {valuesFrom: [{kind: Secret, name: values}]}": {
			inShop("", "ConfigMap", "values"), inShop("", "Secret", "values")},
		"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec: {rules: [{backendRefs: [{name: web}]}]}": {inShop("", "Service", "web")},
		"apiVersion: cert-manager.io/v1\nkind: Issuer\nmetadata: {name: i}\nspec: {ca: {secretName: ca}}":                               {inShop("", "Secret", "ca")},
		// A field of another type is one of another version.
		"apiVersion: cert-manager.io/v1\nkind: Issuer\nmetadata: {name: i}\nspec: {ca: none}": {},
	} {
		got, err := usage.References(objects(t, doc)[0])
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s\nnames %v (%v), want %v", doc, got, err, want)
		}
	}
}

// The kinds of the rules are listed for what they speak of, each once.
func TestSourcesOfRules(t *testing.T) {
	r := ruleOf(t, "Thing.example.com", "spec.a", "Part")
	if got := usage.Sources(inShop("example.com", "Part", "p"), usage.Stale{}, r, r); len(got) != 1 || got[0].GroupKind != r.From || got[0].Everywhere {
		t.Errorf("sources are %v", got)
	}
	if got := usage.Sources(inShop("example.com", "Other", "p"), usage.Stale{}, r); len(got) != 0 {
		t.Errorf("sources are %v", got)
	}
}
