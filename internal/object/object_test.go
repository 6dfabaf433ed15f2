package object_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

const rbac = "rbac.authorization.k8s.io"

func TestInventoryForm(t *testing.T) {
	tests := map[string]struct {
		id   object.ID
		want string
	}{
		"core":           {object.ID{Kind: "ConfigMap", Namespace: "shop", Name: "app"}, "shop_app__ConfigMap"},
		"cluster-scoped": {object.ID{Kind: "Namespace", Name: "x"}, "_x__Namespace"},
		"group":          {object.ID{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}, "shop_web_apps_Deployment"},
		"dots":           {object.ID{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "a.b.c"}, "_a.b.c_apiextensions.k8s.io_CustomResourceDefinition"},
		"colons":         {object.ID{Group: rbac, Kind: "ClusterRole", Name: "system:node:x"}, "_system__node__x_" + rbac + "_ClusterRole"},
		"underscore":     {object.ID{Group: rbac, Kind: "Role", Namespace: "a", Name: "read_only"}, "a_read_only_" + rbac + "_Role"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.id.Inventory(); got != tt.want {
				t.Errorf("written as %s, want %s", got, tt.want)
			}
			if got, err := object.ParseInventory(tt.want); err != nil || got != tt.id {
				t.Errorf("read as %+v, %v", got, err)
			}
			if !tt.id.IsRecordable() {
				t.Error("can't be recorded")
			}
		})
	}
}

func TestParseInventoryRefuses(t *testing.T) {
	for _, s := range []string{"", "_", "__", "___", "a", "a_b", "a_b_c", "ns__apps_Deployment", "ns_name_apps_", "no separator",
		"ns_../configmaps/c__ConfigMap", "ns_a/b__ConfigMap", "ns_..__ConfigMap", "ns_a%2fb__ConfigMap", "../x_c__ConfigMap"} {
		if id, err := object.ParseInventory(s); err == nil {
			t.Errorf("%q is read as %+v", s, id)
		} else if !strings.Contains(err.Error(), `"`+s+`"`) {
			t.Errorf("%v does not name the id", err)
		}
	}
}

// Some names that the API server accepts can't be told apart in Flux's form. They have to be known before they are applied.
func TestAmbiguousNamesAreNotRecordable(t *testing.T) {
	for _, name := range []string{"a__b", "a_:b", "_:", "a____b"} {
		id := object.ID{Group: rbac, Kind: "ClusterRole", Name: name}
		if id.IsRecordable() {
			t.Errorf("%s is recorded as %s, which is read as another object", name, id.Inventory())
		}
	}
}

func TestIDOf(t *testing.T) {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("apps/v1")
	u.SetKind("Deployment")
	u.SetNamespace("shop")
	u.SetName("web")
	id := object.IDOf(u)
	if id.String() != "Deployment/shop/web" || id.GroupKind().String() != "Deployment.apps" {
		t.Errorf("%+v", id)
	}
	if s := (object.ID{Kind: "Namespace", Name: "x"}).String(); s != "Namespace/x" {
		t.Error(s)
	}
}

func drawID(t *rapid.T) object.ID {
	return object.ID{
		Group:     rapid.SampledFrom([]string{"", "apps", "example.com", rbac}).Draw(t, "group"),
		Kind:      rapid.SampledFrom([]string{"A", "B", "ClusterRole"}).Draw(t, "kind"),
		Namespace: rapid.StringMatching(`([a-z0-9]([-a-z0-9]{0,3}[a-z0-9])?)?`).Draw(t, "namespace"),
		Name:      rapid.StringMatching(`[a-z0-9:_.-]{1,6}`).Draw(t, "name"),
	}
}

// What is recordable is read back as it was, and no two of them are written alike.
func TestInventoryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawID(t), drawID(t)
		got, err := object.ParseInventory(a.Inventory())
		if a.IsRecordable() && (err != nil || got != a) {
			t.Fatalf("%+v is written as %s and read as %+v: %v", a, a.Inventory(), got, err)
		}
		if a.IsRecordable() && b.IsRecordable() && a != b && a.Inventory() == b.Inventory() {
			t.Fatalf("%+v and %+v are both written as %s", a, b, a.Inventory())
		}
		if strings.Count(a.Name, "_") <= 0 && a.Unaddressable() == "" && !a.IsRecordable() {
			t.Fatalf("%+v has no underscore and is not recordable", a)
		}
	})
}

func FuzzParseInventory(f *testing.F) {
	for _, seed := range []string{"shop_app__ConfigMap", "_x__Namespace", "_system__node_" + rbac + "_ClusterRole", "", "____", "a_b_c_d_e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := object.ParseInventory(s)
		if err != nil {
			return
		}
		if id.Name == "" || id.Kind == "" {
			t.Errorf("%q is read as %+v", s, id)
		}
		if again, err := object.ParseInventory(id.Inventory()); err != nil || (again != id && id.IsRecordable()) {
			t.Errorf("%q is read as %+v, written as %q and read as %+v: %v", s, id, id.Inventory(), again, err)
		}
	})
}

func TestCompareIsATotalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawID(t), drawID(t), drawID(t)
		if object.Compare(a, b) != -object.Compare(b, a) || (object.Compare(a, b) == 0) != (a == b) {
			t.Fatalf("%+v and %+v", a, b)
		}
		ids := []object.ID{a, b, c}
		slices.SortFunc(ids, object.Compare)
		if object.Compare(ids[0], ids[2]) > 0 {
			t.Fatalf("%+v", ids)
		}
	})
	ids := []object.ID{{Group: "a"}, {Group: "a", Kind: "A"}, {Group: "a", Kind: "A", Namespace: "x"}, {Group: "a", Kind: "A", Namespace: "x", Name: "y"}, {Group: "b"}}
	if !slices.IsSortedFunc(ids, object.Compare) {
		t.Error("not by group, kind, namespace, name")
	}
}

func TestSet(t *testing.T) {
	a := object.ID{Kind: "ConfigMap", Name: "a"}
	if (object.Set)(nil).Has(a) || !object.NewSet(a, a).Has(a) || len(object.NewSet(a, a)) != 1 {
		t.Error("wrong membership")
	}
}
