package paging

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// pages are answers of an API server, by the token that asks for them.
var pages = map[string]string{
	"": `{"kind":"KustomizationList","apiVersion":"kustomize.toolkit.fluxcd.io/v1","metadata":{"continue":"more"},"items":[
		{"metadata":{"name":"a","labels":{"a":"1"},"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"suspend":true}}]}`,
	"more": `{"kind":"KustomizationList","apiVersion":"kustomize.toolkit.fluxcd.io/v1","metadata":{},"items":[
		{"metadata":{"name":"b","labels":{"b":"1"}}}]}`,
}

func reader(t *testing.T, asked *int) client.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked++
		if *asked > 3 || r.URL.Query().Get("limit") != "1" {
			http.Error(w, "no more", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, pages[r.URL.Query().Get("continue")])
	}))
	t.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1.GroupVersion.WithKind("Kustomization"), meta.RESTScopeNamespace)
	c, err := client.New(&rest.Config{Host: server.URL}, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newList() *v1.KustomizationList { return &v1.KustomizationList{} }

// TestEachPageIsItsOwn: nothing of one page shows in the next, and the last page is the last.
func TestEachPageIsItsOwn(t *testing.T) {
	asked := 0
	var got []v1.Kustomization
	err := Each(t.Context(), reader(t, &asked), client.ListOptions{Limit: 1}, newList, func(page *v1.KustomizationList) (bool, error) {
		got = append(got, page.Items...)
		return false, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if asked != 2 || len(got) != 2 {
		t.Fatalf("%d requests, %d objects", asked, len(got))
	}
	if b := got[1]; b.Name != "b" || !reflect.DeepEqual(b.Labels, map[string]string{"b": "1"}) || b.DeletionTimestamp != nil || b.Spec.Suspend {
		t.Errorf("the second page has %+v", b)
	}
}

func TestEachEnds(t *testing.T) {
	broken := errors.New("broken")
	for name, visit := range map[string]func(*v1.KustomizationList) (bool, error){
		"when it has enough": func(*v1.KustomizationList) (bool, error) { return true, nil },
		"with an error":      func(*v1.KustomizationList) (bool, error) { return false, broken },
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			err := Each(t.Context(), reader(t, &asked), client.ListOptions{Limit: 1}, newList, visit)
			if asked != 1 || err != nil && !errors.Is(err, broken) || err == nil && name == "with an error" {
				t.Errorf("%d requests, error %v", asked, err)
			}
		})
	}
}
