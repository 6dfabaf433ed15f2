package kustomization

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// What makes the verdict: P09, P105 the references, with or without a version, of the build or not, and with wait everything instead
// of them; P106 not the Kustomization itself, and not what is skipped.
func TestChecks(t *testing.T) {
	built := func(apiVersion, kind, namespace, name string, annotations map[string]string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(apiVersion)
		u.SetKind(kind)
		u.SetNamespace(namespace)
		u.SetName(name)
		u.SetAnnotations(annotations)
		return u
	}
	reference := func(apiVersion, kind, namespace, name string) fluxmeta.NamespacedObjectKindReference {
		return fluxmeta.NamespacedObjectKindReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}
	}
	const self = "kustomize.toolkit.fluxcd.io/v1"
	references := []fluxmeta.NamespacedObjectKindReference{
		reference("", "Deployment", "shop", "web"), reference("example.com/v1", "Thing", "elsewhere", "x"),
		reference(self, "Kustomization", "flux-system", "shop"), reference(self, "Kustomization", "flux-system", "other"),
	}
	for name, tt := range map[string]struct {
		change func(*v1.Kustomization)
		want   []string
	}{
		"P105 wait": {func(ks *v1.Kustomization) { ks.Spec.Wait, ks.Spec.HealthChecks = true, references },
			[]string{"Deployment/shop/web apps v1 built", "ConfigMap/shop/c  v1 built"}},
		"P09 P105 references": {func(ks *v1.Kustomization) { ks.Spec.HealthChecks = references },
			[]string{"Deployment/shop/web apps v1 built", "Thing/elsewhere/x example.com v1", "Kustomization/flux-system/other kustomize.toolkit.fluxcd.io v1"}},
		"in the background, only workloads": {func(*v1.Kustomization) {}, []string{"Deployment/shop/web apps v1 built"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := passOn(newKustomization())
			p.built.Objects = []*unstructured.Unstructured{
				built("apps/v1", "Deployment", "shop", "web", nil), built("v1", "ConfigMap", "shop", "c", nil),
				built(self, "Kustomization", "flux-system", "shop", nil),
				built("apps/v1", "Deployment", "shop", "skipped", map[string]string{v1.ControlPrefix + "ssa": "Ignore"}),
				built("apps/v1", "Deployment", "shop", "disabled", map[string]string{v1.ControlPrefix + "reconcile": "disabled"}),
			}
			tt.change(p.ks)
			var got []string
			for _, c := range p.checks() {
				text := c.ID.String() + " " + c.ID.Group + " " + c.Version
				if c.Desired != nil {
					text += " built"
				}
				got = append(got, text)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("checked are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// P112: how long a verification may take.
func TestTimeout(t *testing.T) {
	of := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	for name, tt := range map[string]struct {
		interval time.Duration
		timeout  *metav1.Duration
		want     time.Duration
	}{
		"that of the spec":           {time.Hour, of(5 * time.Minute), 5 * time.Minute},
		"longer than the interval":   {time.Minute, of(time.Hour), time.Hour},
		"too short":                  {time.Hour, of(time.Second), 30 * time.Second},
		"of the interval":            {10 * time.Minute, nil, 9*time.Minute + 30*time.Second},
		"of an interval of a minute": {time.Minute, nil, 30 * time.Second},
		"of a short interval":        {5 * time.Second, nil, 30 * time.Second},
	} {
		p := passOn(newKustomization())
		p.ks.Spec.Interval.Duration, p.ks.Spec.Timeout = tt.interval, tt.timeout
		if got := p.timeout(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// P11, P13: a source that is not there is waited for; where that can't be known the queue backs off.
func TestSourceThatCannotBeRead(t *testing.T) {
	p, s := passAgainst(newKustomization())
	s.faults["GitRepository"] = errors.New("no answer")
	out := p.resolve(t.Context())
	const want = "unable to get source 'flux-system/app': no answer"
	if out == nil || out.err == nil || out.err.Error() != want || out.message != want || out.after != 0 || !out.quiet {
		t.Errorf("%+v, want the error %s", out, want)
	}
	p, s = passAgainst(newKustomization())
	s.faults["GitRepository"] = apierrors.NewNotFound(schema.GroupResource{Group: "source.toolkit.fluxcd.io", Resource: "gitrepositories"}, "app")
	out = p.resolve(t.Context())
	if out == nil || out.err != nil || out.state != stateWaiting || out.reason != "ArtifactFailed" || out.after != time.Minute ||
		!strings.HasPrefix(out.message, `gitrepositories.source.toolkit.fluxcd.io "app" not found`) {
		t.Errorf("%+v", out)
	}
}
