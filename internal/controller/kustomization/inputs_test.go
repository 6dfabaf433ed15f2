package kustomization

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

func in(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// P43, P44, P45: where values come from, which of two counts, and what a missing reference does.
func TestVariables(t *testing.T) {
	ref := func(kind, name string, optional bool) fluxv1.SubstituteReference {
		return fluxv1.SubstituteReference{Kind: kind, Name: name, Optional: optional}
	}
	tests := map[string]struct {
		post *fluxv1.PostBuild
		want map[string]string
		err  string
	}{
		"P43 nothing asked for": {},
		"P44 inline over references, later over earlier, without newlines": {
			post: &fluxv1.PostBuild{Substitute: map[string]string{"a": "in\nline\n"},
				SubstituteFrom: []fluxv1.SubstituteReference{ref("ConfigMap", "c", false), ref("Secret", "s", false)}},
			want: map[string]string{"a": "inline", "b": "secret", "c": "config"}},
		"P44 the other order": {
			post: &fluxv1.PostBuild{SubstituteFrom: []fluxv1.SubstituteReference{ref("Secret", "s", false), ref("ConfigMap", "c", false)}},
			want: map[string]string{"a": "config", "b": "config", "c": "config"}},
		"P45 missing": {post: &fluxv1.PostBuild{SubstituteFrom: []fluxv1.SubstituteReference{ref("ConfigMap", "c", false), ref("Secret", "zz", false)}},
			err: "substitute from 'Secret/zz' error: secrets \"zz\" not found"},
		"P45 missing, optional": {post: &fluxv1.PostBuild{SubstituteFrom: []fluxv1.SubstituteReference{ref("ConfigMap", "zz", true), ref("Secret", "zz", true)}},
			want: map[string]string{}},
		"P45 unreadable, optional": {post: &fluxv1.PostBuild{SubstituteFrom: []fluxv1.SubstituteReference{ref("ConfigMap", "broken", true)}},
			err: "substitute from 'ConfigMap/broken' error: no answer"},
		"P43 of another namespace": {post: &fluxv1.PostBuild{SubstituteFrom: []fluxv1.SubstituteReference{ref("ConfigMap", "elsewhere", false)}},
			err: "substitute from 'ConfigMap/elsewhere' error: configmaps \"elsewhere\" not found"},
		"another kind": {post: &fluxv1.PostBuild{SubstituteFrom: []fluxv1.SubstituteReference{ref("Pod", "p", true)}},
			err: "substitute from 'Pod/p' error: kind is not supported: use ConfigMap or Secret"},
	}
	reader := fake.NewClientBuilder().WithObjects(
		&corev1.ConfigMap{ObjectMeta: in("flux-system", "c"), Data: map[string]string{"a": "config", "b": "config", "c": "config\n"}},
		&corev1.Secret{ObjectMeta: in("flux-system", "s"), Data: map[string][]byte{"a": []byte("secret"), "b": []byte("\nsecret\n")}},
		&corev1.ConfigMap{ObjectMeta: in("other", "elsewhere")},
	).WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if key.Name == "broken" {
			return errors.New("no answer")
		}
		return c.Get(ctx, key, obj, opts...)
	}}).Build()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := passOn(newKustomization())
			p.Reader = reader
			p.ks.Spec.PostBuild = tt.post
			got, err := p.readInputs(t.Context())
			switch {
			case tt.err != "" && (err == nil || err.Error() != tt.err):
				t.Errorf("%v, want %s", err, tt.err)
			case tt.err == "" && err != nil:
				t.Error(err)
			case tt.err == "" && (got.substitution != nil) != (tt.post != nil):
				t.Errorf("substitution %+v", got.substitution)
			case got.substitution != nil && !maps.Equal(got.substitution.Variables, tt.want):
				t.Errorf("%v, want %v", got.substitution.Variables, tt.want)
			}
		})
	}
}

// P46, P50: the settings reach the build.
func TestSubstitutionSettings(t *testing.T) {
	p := passOn(newKustomization())
	p.LenientSubstitution, p.SubstituteWholeText = true, true
	p.ks.Spec.PostBuild = &fluxv1.PostBuild{SubstituteStrategy: fluxv1.SubstituteStrategyAlways}
	got, err := p.readInputs(t.Context())
	if s := got.substitution; err != nil || !s.Always || !s.Lenient || !s.WholeText {
		t.Errorf("%+v, %v", s, err)
	}
}

// P222: a Kustomization is found by all that its build reads, in its own namespace.
func TestConfigKeys(t *testing.T) {
	ks := newKustomization()
	if keys := append(configMapKeys(ks), secretKeys(ks)...); len(keys) > 0 {
		t.Errorf("%v", keys)
	}
	ks.Spec.PostBuild = &fluxv1.PostBuild{SubstituteFrom: []fluxv1.SubstituteReference{{Kind: "ConfigMap", Name: "c"}, {Kind: "Secret", Name: "s"}}}
	ks.Spec.Decryption = &fluxv1.Decryption{SecretRef: &fluxmeta.LocalObjectReference{Name: "keys"}}
	ks.Spec.KubeConfig = &fluxmeta.KubeConfigReference{
		ConfigMapRef: &fluxmeta.LocalObjectReference{Name: "remote"}, SecretRef: &fluxmeta.SecretKeyReference{Name: "kube"}}
	if got, want := configMapKeys(ks), []string{"flux-system/c", "flux-system/remote"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := secretKeys(ks), []string{"flux-system/s", "flux-system/kube", "flux-system/keys"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// C47: what a variable changes under a name with a hash is told, and nothing else.
func TestC47ChangeUnderAHashIsTold(t *testing.T) {
	p := passOn(newKustomization())
	p.built = &build.Result{InPlace: []object.ID{{Kind: "ConfigMap", Namespace: "shop", Name: "app-abc"}}}
	p.tellInPlace([]string{"ConfigMap/shop/app-abc created", "ConfigMap/shop/other configured"})
	if len(p.events) > 0 {
		t.Errorf("%v", p.events)
	}
	p.tellInPlace([]string{"ConfigMap/shop/app-abc configured"})
	if len(p.events) != 1 || !strings.HasPrefix(p.events[0].message, "ConfigMap/shop/app-abc was changed under the same name") {
		t.Errorf("%v", p.events)
	}
}
