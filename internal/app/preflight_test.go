package app

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-gitops/holdfast/config"
)

const gitCRD = "gitrepositories.source.toolkit.fluxcd.io"

func TestPreflight(t *testing.T) {
	all := map[string]*apiextensionsv1.CustomResourceDefinition{kustomizationCRD: ours(t)}
	all[gitCRD] = crd(gitCRD, false)
	without := func(names ...string) map[string]*apiextensionsv1.CustomResourceDefinition {
		some := map[string]*apiextensionsv1.CustomResourceDefinition{}
		for name, content := range all {
			some[name] = content
		}
		for _, name := range names {
			delete(some, name)
		}
		return some
	}
	stock := without()
	stock[kustomizationCRD] = crd(kustomizationCRD, false)
	old := without()
	old[gitCRD] = crd(gitCRD, false)
	old[gitCRD].Spec.Versions[0].Name = "v1beta2"

	bare := without()
	bare[kustomizationCRD] = crd(kustomizationCRD, true)
	older := without()
	older[kustomizationCRD] = ours(t)
	status := older[kustomizationCRD].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["rollout"]
	delete(status.Properties["stored"].Items.Schema.Properties, "checksum")

	tests := map[string]struct {
		crds map[string]*apiextensionsv1.CustomResourceDefinition
		code int
		want []string
	}{
		"all there":   {crds: all},
		"none":        {crds: without(gitCRD, kustomizationCRD), want: []string{kustomizationCRD, gitCRD, installAdvice}},
		"one missing": {crds: without(gitCRD), want: []string{gitCRD, installAdvice}},
		"stock CRD":   {crds: stock, want: []string{"lacks status.rollout", installAdvice}},
		"bare":        {crds: bare, want: []string{"lacks spec.rollout, status.rollout.", " more: ", installAdvice}},
		"older CRD":   {crds: older, want: []string{"it lacks status.rollout.stored[].checksum: " + installAdvice}},
		"old version": {crds: old, want: []string{gitCRD, installAdvice}},
		"forbidden":   {code: http.StatusForbidden, want: []string{"right to get customresourcedefinitions is missing"}},
		"who are you": {code: http.StatusUnauthorized, want: []string{"does not accept the credentials"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(apiServer(t, test.crds, test.code))
			defer server.Close()
			err := check(t, server.URL)
			if len(test.want) == 0 {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			wantUnavailable(t, err, test.want...)
		})
	}
}

func TestPreflightWithoutACluster(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	address := server.URL
	server.Close()
	wantUnavailable(t, check(t, address), "can't be reached", address)
}

func check(t *testing.T, address string) error {
	t.Helper()
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	return preflight(t.Context(), &rest.Config{Host: address}, scheme, Options{Takeover: true})
}

// wantUnavailable checks that an error says all that is wanted, in one line, and has the right exit code.
func wantUnavailable(t *testing.T, err error, want ...string) {
	t.Helper()
	var coded *Error
	if !errors.As(err, &coded) || coded.ExitCode() != ExitUnavailable {
		t.Fatalf("error is %v, want one with exit code %d", err, ExitUnavailable)
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the message has more than one line: %q", err)
	}
}

// ours is the definition that belongs to this program.
func ours(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := config.CRDs.ReadFile(kustomizationFile)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(text, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// crd is one that has nothing, or a status.rollout without fields.
func crd(name string, rollout bool) *apiextensionsv1.CustomResourceDefinition {
	status := apiextensionsv1.JSONSchemaProps{Type: "object"}
	if rollout {
		status.Properties = map[string]apiextensionsv1.JSONSchemaProps{"rollout": {Type: "object"}}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name:   "v1",
		Served: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Properties: map[string]apiextensionsv1.JSONSchemaProps{"status": status},
		}},
	}}
	return crd
}

// apiServer answers with CRDs, or with an error code to every question about one.
func apiServer(t *testing.T, crds map[string]*apiextensionsv1.CustomResourceDefinition, code int) http.Handler {
	answer := func(w http.ResponseWriter, code int, content any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if err := json.NewEncoder(w).Encode(content); err != nil {
			t.Errorf("answer: %v", err)
		}
	}
	failure := func(code int, reason metav1.StatusReason) metav1.Status {
		return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}", func(w http.ResponseWriter, r *http.Request) {
		found, ok := crds[r.PathValue("name")]
		switch {
		case code == http.StatusForbidden:
			answer(w, code, failure(code, metav1.StatusReasonForbidden))
		case code == http.StatusUnauthorized:
			answer(w, code, failure(code, metav1.StatusReasonUnauthorized))
		case !ok:
			answer(w, http.StatusNotFound, failure(http.StatusNotFound, metav1.StatusReasonNotFound))
		default:
			answer(w, http.StatusOK, found)
		}
	})
	return mux
}
