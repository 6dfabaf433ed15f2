package revision_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/revision"
	"github.com/holdfast-gitops/holdfast/internal/testkit/modelcluster"
)

// open lets every request pass.
type open struct{}

func (open) Enter(modelcluster.Request) error              { return nil }
func (open) Leave(_ modelcluster.Request, err error) error { return err }

func newStore(t *testing.T) (*revision.Store, client.Client) {
	t.Helper()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cluster := modelcluster.New(func() time.Time { return now })
	cluster.Create("admin", &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": "apps"}}})
	c := cluster.NewClient("holdfast", clientgoscheme.Scheme, open{})
	return &revision.Store{Client: c}, c
}

func owner(name string) *v1.Kustomization {
	ks := &v1.Kustomization{}
	ks.Namespace, ks.Name, ks.UID = "apps", name, types.UID("uid-of-"+name)
	return ks
}

func configMap(name string, data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": "apps"}, "data": data, "count": int64(3), "share": 0.5}}
}

func stored(digest string, objects ...*unstructured.Unstructured) revision.Revision {
	return revision.Revision{RevisionDigest: v1.RevisionDigest{Revision: "main@sha1:" + digest, Digest: "sha256:" + digest}, Objects: objects}
}

// save stores a revision and returns what Load asks for.
func save(t *testing.T, store *revision.Store, ks *v1.Kustomization, r revision.Revision) v1.StoredRevision {
	t.Helper()
	sum, err := store.Save(t.Context(), ks, r)
	if err != nil {
		t.Fatal(err)
	}
	return v1.StoredRevision{RevisionDigest: r.RevisionDigest, Checksum: sum}
}

// noise can't be compressed, so that it takes several Secrets.
func noise(size int) string {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable on purpose
	var b strings.Builder
	for b.Len() < size {
		b.WriteByte(byte(' ' + rng.IntN(90)))
	}
	return b.String()
}

func TestSaveAndLoad(t *testing.T) {
	for name, size := range map[string]int{"one Secret": 10, "several": 2 << 20} {
		t.Run(name, func(t *testing.T) {
			store, c := newStore(t)
			ks := owner("shop")
			saved := stored("aaaa", configMap("one", map[string]any{"k": noise(size)}), configMap("two", map[string]any{}))
			first := save(t, store, ks, saved)
			if again := save(t, store, ks, saved); again != first { // what is there already is left as it is
				t.Errorf("stored again it is %+v, not %+v", again, first)
			}
			got, err := store.Load(t.Context(), ks, first)
			if err != nil {
				t.Fatal(err)
			}
			if got.Revision != saved.Revision || !reflect.DeepEqual(got.Objects, saved.Objects) {
				t.Errorf("it comes back as another one: %+v", got.RevisionDigest)
			}
			list := &corev1.SecretList{}
			if err := c.List(t.Context(), list); err != nil || (size > 1<<20) != (len(list.Items) > 1) {
				t.Errorf("%d Secrets, %v", len(list.Items), err)
			}
			for _, s := range list.Items {
				if s.Type != revision.SecretType || len(s.Data["objects"]) > 1<<20 || len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != ks.UID {
					t.Errorf("Secret %s: type %s, %d bytes, owners %v", s.Name, s.Type, len(s.Data["objects"]), s.OwnerReferences)
				}
			}
		})
	}
}

// What was damaged is not applied, and its values are in no error.
func TestDamaged(t *testing.T) {
	for name, damage := range map[string]func(*testing.T, client.Client, *corev1.Secret){
		"another content": func(t *testing.T, c client.Client, s *corev1.Secret) {
			t.Helper()
			replace(t, c, s, func(s *corev1.Secret) { s.Data["objects"] = []byte("hunter2") })
		},
		"objects of another revision, with their checksum": func(t *testing.T, c client.Client, s *corev1.Secret) {
			t.Helper()
			// Whoever writes the Secret can write its checksum, too.
			other := anotherSecret(t, c)
			replace(t, c, s, func(s *corev1.Secret) {
				s.Data["objects"] = other.Data["objects"]
				s.Annotations["holdfast.dev/checksum"] = other.Annotations["holdfast.dev/checksum"]
			})
		},
		"objects of another revision": func(t *testing.T, c client.Client, s *corev1.Secret) {
			t.Helper()
			other := anotherSecret(t, c)
			replace(t, c, s, func(s *corev1.Secret) { s.Data["objects"] = other.Data["objects"] })
		},
		"of someone else": func(t *testing.T, c client.Client, s *corev1.Secret) {
			t.Helper()
			replace(t, c, s, func(s *corev1.Secret) { s.Labels[revision.OwnerLabel] = "other" })
		},
		"another number of chunks": func(t *testing.T, c client.Client, s *corev1.Secret) {
			t.Helper()
			replace(t, c, s, func(s *corev1.Secret) { s.Annotations["holdfast.dev/chunks"] = "1000000" })
		},
		"a chunk is missing": func(t *testing.T, c client.Client, s *corev1.Secret) {
			t.Helper()
			replace(t, c, s, func(s *corev1.Secret) { s.Annotations["holdfast.dev/chunks"] = "2" })
		},
		"gone": func(t *testing.T, c client.Client, s *corev1.Secret) {
			t.Helper()
			if err := c.Delete(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, c := newStore(t)
			ks := owner("shop")
			saved := save(t, store, ks, stored("aaaa", configMap("one", map[string]any{"password": "hunter2"})))
			list := &corev1.SecretList{}
			if err := c.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			damage(t, c, &list.Items[0])
			_, err := store.Load(t.Context(), ks, saved)
			if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "holdfast-shop-aaaa-") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// anotherSecret is that of a revision of another Kustomization: it is whole, and not what was healthy here.
func anotherSecret(t *testing.T, c client.Client) corev1.Secret {
	t.Helper()
	other := owner("other")
	save(t, &revision.Store{Client: c}, other, stored("bbbb", configMap("two", map[string]any{"password": "hunter2"})))
	list := &corev1.SecretList{}
	if err := c.List(t.Context(), list, client.MatchingLabels{revision.OwnerLabel: string(other.UID)}); err != nil || len(list.Items) != 1 {
		t.Fatal(len(list.Items), err)
	}
	return list.Items[0]
}

// replace makes a Secret anew with a change: those of revisions are immutable.
func replace(t *testing.T, c client.Client, s *corev1.Secret, change func(*corev1.Secret)) {
	t.Helper()
	if err := c.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	s = s.DeepCopy()
	s.ResourceVersion, s.UID = "", ""
	change(s)
	if err := c.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// A damaged revision that is healthy again is stored anew.
func TestSaveMends(t *testing.T) {
	store, c := newStore(t)
	ks := owner("shop")
	saved := stored("aaaa", configMap("one", nil))
	save(t, store, ks, saved)
	list := &corev1.SecretList{}
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	replace(t, c, &list.Items[0], func(s *corev1.Secret) { s.Data["objects"] = []byte("x") })
	if _, err := store.Load(t.Context(), ks, save(t, store, ks, saved)); err != nil {
		t.Error(err)
	}
}

func TestTooLarge(t *testing.T) {
	store, c := newStore(t)
	_, err := store.Save(t.Context(), owner("shop"), stored("aaaa", configMap("one", map[string]any{"k": noise(11 << 20)})))
	var tooLarge *revision.TooLargeError
	if !errors.As(err, &tooLarge) || !strings.Contains(err.Error(), "8 MiB is the limit") {
		t.Errorf("the error is %v", err)
	}
	list := &corev1.SecretList{}
	if err := c.List(t.Context(), list); err != nil || len(list.Items) > 0 {
		t.Errorf("%d Secrets are left of it, %v", len(list.Items), err)
	}
}

// Trim deletes what is not kept, and nothing of others: neither of another Kustomization nor a Secret that someone labelled.
func TestTrim(t *testing.T) {
	store, c := newStore(t)
	ks, other := owner("shop"), owner("shop-2")
	for _, digest := range []string{"aaaa", "bbbb", "cccc"} {
		save(t, store, ks, stored(digest, configMap("one", nil)))
	}
	save(t, store, other, stored("aaaa", configMap("one", nil)))
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "mine", Labels: map[string]string{revision.OwnerLabel: string(ks.UID)}}}
	if err := c.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if err := store.Trim(t.Context(), ks, []string{"sha256:bbbb"}); err != nil {
		t.Fatal(err)
	}
	list := &corev1.SecretList{}
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range list.Items {
		names = append(names, s.Name)
	}
	if want := []string{"holdfast-shop-2-aaaa-0", "holdfast-shop-bbbb-0", "mine"}; !reflect.DeepEqual(names, want) {
		t.Errorf("left are %v, want %v", names, want)
	}
}

// quoting refuses every write of a Secret in words that repeat what is in one, as webhooks do.
type quoting struct {
	open
	refusal error
}

func (q *quoting) Enter(r modelcluster.Request) error {
	if r.Writes() {
		return q.refusal
	}
	return nil
}

// What a webhook says of a Secret that it refuses is in no error.
func TestRefusalsAreWithheld(t *testing.T) {
	store, c := newStore(t)
	ks := owner("shop")
	save(t, store, ks, stored("aaaa", configMap("one", nil)))
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "x", errors.New("admission webhook denied the request: hunter2"))
	model, ok := c.(*modelcluster.Client)
	if !ok {
		t.Fatalf("the client is %T", c)
	}
	store.Client = model.Behind(&quoting{refusal: forbidden})
	_, saving := store.Save(t.Context(), ks, stored("bbbb", configMap("two", nil)))
	for name, err := range map[string]error{
		"save": saving,
		"trim": store.Trim(t.Context(), ks, nil),
	} {
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "not shown") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
