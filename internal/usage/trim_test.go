package usage_test

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

func trimmed(live usage.Live, rules ...usage.Rule) usage.Live {
	var out usage.Live
	trimmer := usage.Trimmer{Rules: rules}
	for _, u := range live {
		out = append(out, trimmer.Trim(u.DeepCopy()))
	}
	return out
}

// sameAnswers fails unless a trimmed object has the references, users and history of the whole one, and the same errors.
func sameAnswers(t interface {
	Helper()
	Fatalf(string, ...any)
}, targets object.Set, live usage.Live,
) {
	t.Helper()
	less := trimmed(live)
	type answer struct {
		found map[object.ID][]usage.User
		err   string
	}
	ask := func(f func(object.Set, usage.Live) (map[object.ID][]usage.User, error), live usage.Live) answer {
		found, err := f(targets, live)
		if err != nil {
			return answer{found, err.Error()}
		}
		return answer{found: found}
	}
	for name, f := range map[string]func(object.Set, usage.Live) (map[object.ID][]usage.User, error){"users": usage.Find, "history": usage.History} {
		if whole, part := ask(f, live), ask(f, less); !reflect.DeepEqual(whole, part) {
			t.Fatalf("%s of the whole objects: %+v\nof the trimmed ones: %+v", name, whole, part)
		}
	}
	for i := range live {
		whole, err := usage.References(live[i])
		part, partErr := usage.References(less[i])
		if !reflect.DeepEqual(whole, part) || (err == nil) != (partErr == nil) || err != nil && err.Error() != partErr.Error() {
			t.Fatalf("references of the whole object: %v (%v)\nof the trimmed one: %v (%v)", whole, err, part, partErr)
		}
	}
}

// Objects of every kind of user, in part malformed, and trees in which all names are those that the rules read.
func TestTrimChangesNoAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var live usage.Live
		for range rapid.IntRange(1, 3).Draw(t, "objects") {
			gvk := rapid.SampledFrom(usage.UserKinds).Draw(t, "kind")
			u := &unstructured.Unstructured{Object: map[string]any{}}
			for _, field := range []string{"spec", "status", "data"} {
				u.Object[field] = tree(6).Draw(t, field)
			}
			u.SetGroupVersionKind(gvk)
			u.SetNamespace("shop")
			if rapid.Bool().Draw(t, "of a controller") {
				yes := true
				u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", Controller: &yes}})
			}
			u.SetName(rapid.SampledFrom([]string{"a", "b", "db"}).Draw(t, "name"))
			live = append(live, u)
		}
		targets := object.Set{}
		for _, u := range live {
			refs, _ := usage.References(u)
			for _, id := range refs {
				targets[id] = struct{}{}
			}
		}
		sameAnswers(t, targets, live)
	})
}

// What no rule reads is gone.
func TestTrimLeavesWhatIsRead(t *testing.T) {
	const ballast = "no rule reads this"
	doc := "apiVersion: v1\nkind: Pod\n" + meta("p", "managedFields: [{manager: "+ballast+"}]", "annotations: {a: "+ballast+"}") +
		"status: {phase: Running, containerStatuses: [{name: " + ballast + "}]}\n" +
		"spec: {containers: [{name: c, image: " + ballast + ", env: [{name: A, value: " + ballast + "}, {name: B, valueFrom: {configMapKeyRef: {name: cfg, key: " + ballast + "}}}]}]}"
	whole := objects(t, doc)[0]
	text, err := trimmed(usage.Live{whole})[0].MarshalJSON()
	if err != nil || strings.Contains(string(text), ballast) {
		t.Errorf("%s (%v)", text, err)
	}
	sameAnswers(t, object.NewSet(cfg), usage.Live{whole})
}

// Of a custom resource, and of a kind that a rule of the user reads, everything stays that somebody wrote.
func TestTrimKeepsWhatRulesRead(t *testing.T) {
	thing := objects(t, "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t, managedFields: [{manager: m}]}\nspec: {a: [{b: 1}]}")[0]
	if got := trimmed(usage.Live{thing})[0]; len(got.GetManagedFields()) > 0 || !reflect.DeepEqual(got.Object["spec"], thing.Object["spec"]) {
		t.Errorf("%v", got.Object)
	}
	pod := objects(t, podDoc("p", "Running", "{containers: [{name: c}]}", "annotations: {uses: cfg}"))
	rule, err := usage.NewRule(pod[0].GroupVersionKind().GroupKind(), "metadata.annotations.uses", "ConfigMap")
	if err != nil {
		t.Fatal(err)
	}
	got, err := usage.Among(object.NewSet(cfg), trimmed(pod, rule), usage.Stale{}, rule)
	if err != nil || len(got[cfg]) != 1 {
		t.Errorf("users %v (%v), want the pod", got, err)
	}
}

// Pods of one controller share what they refer to, and only that: their names and states are their own.
func TestTrimShares(t *testing.T) {
	live := objects(t, podDoc("a", "Running", uses, ownedByWeb), podDoc("b", "Failed", uses, ownedByWeb), podDoc("c", "Running", usesNew, ownedByWeb))
	less := trimmed(live)
	spec := func(i int) uintptr { return reflect.ValueOf(less[i].Object["spec"]).Pointer() }
	if spec(0) != spec(1) || spec(1) == spec(2) {
		t.Error("the specs of a and b are equal and shared, that of c is its own")
	}
	sameAnswers(t, object.NewSet(cfg, inShop("", "ConfigMap", "new")), live)
}
