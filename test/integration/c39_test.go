package integration

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
)

// TestC39TooMany: more objects than can be recorded are refused before the first write, saying the limit; nothing of the revision is
// applied or pruned. Near the limit there is a warning. The limit is lowered here.
func TestC39TooMany(t *testing.T) {
	t.Parallel()
	s := newStory(t, func(o *app.Options) { o.Kustomization.MaxObjectSize = 170 << 10 })
	long := func(n int) map[string]string {
		files := map[string]string{}
		for i := range n {
			name := fmt.Sprintf("%s%03d", strings.Repeat("n", 60), i)
			files[name+".yaml"] = configMap(name, "1")
		}
		return files
	}
	r1 := s.push(long(75))
	s.follow()
	s.deploy("app", unwaited)
	s.awaitReady("app", r1)
	s.awaitMessage("app", v1.LargeInventoryCondition, metav1.ConditionTrue, v1.ReasonNearLimit, "75 objects", "80%")
	s.awaitEvent("app", "Warning", v1.ReasonNearLimit, "75 objects")
	more := long(200)
	first := strings.Repeat("n", 60) + "000"
	delete(more, first+".yaml")
	s.push(more)
	ks := s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "too large to be stored", "there is room for", "split the Kustomization")
	if n := len(ks.Status.Inventory.Entries); n != 75 {
		t.Errorf("%d objects are recorded", n)
	}
	s.stays(s.cm(first))
	all, err := s.configMaps(t.Context(), "nnn")
	if err != nil || len(all) != 1 { // by value, which all have in common
		t.Fatalf("%d: %v", len(all), err)
	}
	if err := isGone(t.Context(), s.cm(strings.Repeat("n", 60)+"199")); err != nil {
		t.Errorf("something was applied: %v", err)
	}
	r3 := s.push(long(3))
	s.awaitReady("app", r3)
	eventuallyGone(t, within, s.cm(strings.Repeat("n", 60)+"050"))
}

// TestC39LargeObjects: an object of 900 KiB is applied as any other; one that is larger than the API server takes is refused by name, and
// nothing of that revision is pruned.
func TestC39LargeObjects(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"big.yaml": configMap("big", strings.Repeat("x", 900<<10)), "old.yaml": configMap("old", "1")})
	s.follow()
	s.deploy("app", unwaited)
	s.awaitReady("app", r1)
	big := s.cm("big")
	s.uid(big)
	if len(big.Annotations) != 0 || len(big.Data["k"]) != 900<<10 {
		t.Errorf("%d bytes, annotations %v", len(big.Data["k"]), big.Annotations)
	}
	s.push(map[string]string{"big.yaml": configMap("big", strings.Repeat("x", 1200<<10))})
	ks := s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "ConfigMap/"+s.namespace+"/big")
	for _, c := range ks.Status.Conditions {
		if len(c.Message) > 10<<10 {
			t.Errorf("the message of %s has %d bytes", c.Type, len(c.Message))
		}
	}
	s.request("app")
	s.stays(s.cm("old"))
	r3 := s.push(map[string]string{"big.yaml": configMap("big", "1")})
	s.awaitReady("app", r3)
	eventuallyGone(t, within, s.cm("old"))
}

// TestC39LongText: an error of 3 MiB would outgrow what can be stored, so that nothing was said at all. It is cut, also in the event.
func TestC39LongText(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	s.follow()
	s.deploy("app")
	s.awaitReady("app", r1)
	s.push(map[string]string{"kustomization.yaml": "resources: [" + strings.Repeat("x", 3<<20) + "]\n"})
	ks := s.awaitMessage("app", "Ready", metav1.ConditionFalse, "BuildFailed", "xxx")
	for _, c := range ks.Status.Conditions {
		if len(c.Message) > 10<<10 {
			t.Errorf("the message of %s has %d bytes", c.Type, len(c.Message))
		}
	}
	if e := s.awaitEvent("app", "Warning", "BuildFailed", "xxx"); len(e.Message) > 10<<10 {
		t.Errorf("the event has %d bytes", len(e.Message))
	}
	s.stays(s.cm("a"))
}
