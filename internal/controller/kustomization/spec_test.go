package kustomization

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

func plainSpec() v1.KustomizationSpec {
	return v1.KustomizationSpec{KustomizationSpec: fluxv1.KustomizationSpec{
		SourceRef: fluxv1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: "repo"}}}
}

// supported are the fields that work. A field of a newer API is in neither list until someone has decided.
var supported = map[string][]string{
	"KustomizationSpec": {"buildMetadata", "commonMetadata", "components", "decryption", "deletionPolicy", "dependsOn", "force", "healthCheckExprs", "healthChecks", "ignore",
		"ignoreMissingComponents", "images", "interval", "kubeConfig", "namePrefix", "nameSuffix", "patches", "path", "postBuild", "prune", "retryInterval",
		"serviceAccountName", "sourceRef", "suspend", "targetNamespace", "timeout", "wait"},
	"DependencyReference":           {"name", "namespace", "readyExpr"},
	"KubeConfigReference":           {"configMapRef", "secretRef"},
	"CrossNamespaceSourceReference": {"apiVersion", "kind", "name", "namespace"},
	"RolloutPolicy":                 {"keepRevisions", "maxPrune", "onFailure", "prune", "pruneOrder", "references", "retain", "rollbackOn", "soak"},
}

// Every field of the API works. A new one makes this fail.
func TestEveryFieldIsSupported(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[fluxv1.KustomizationSpec](), reflect.TypeFor[fluxv1.DependencyReference](),
		reflect.TypeFor[fluxv1.CrossNamespaceSourceReference](), reflect.TypeFor[v1.RolloutPolicy](),
		reflect.TypeFor[fluxmeta.KubeConfigReference](),
	} {
		fields := map[string]bool{}
		for field := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(field).Tag.Get("json"), ",")
			fields[name] = true
			if !slices.Contains(supported[typ.Name()], name) {
				t.Errorf("%s.%s: is it supported? decide", typ.Name(), name)
			}
		}
		for _, name := range supported[typ.Name()] {
			if !fields[name] {
				t.Errorf("%s has no field %s", typ.Name(), name)
			}
		}
	}
}

func TestValuesThatAreSupported(t *testing.T) {
	for name, r := range map[string]*v1.RolloutPolicy{
		"none": nil, "empty": {}, "defaults": {PruneOrder: v1.PruneAfterHealthy, Retain: v1.RetainInUse, OnFailure: "Hold", RollbackOn: "BadRelease"},
		"Flux's order": {PruneOrder: v1.PruneAfterApply, Retain: v1.RetainNone}, "zeros": {KeepRevisions: new(int32), Soak: &metav1.Duration{}},
	} {
		spec := plainSpec()
		spec.Rollout = r
		if got := unsupported(spec); len(got) > 0 {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, kind := range []string{"GitRepository", "OCIRepository", "Bucket", "ExternalArtifact"} {
		spec := plainSpec()
		spec.SourceRef.Kind = kind
		if got := unsupported(spec); len(got) > 0 {
			t.Errorf("%s: %q", kind, got)
		}
	}
	spec := plainSpec()
	spec.SourceRef.Kind = "HelmChart"
	if got := unsupported(spec); !slices.Equal(got, []string{`spec.sourceRef.kind "HelmChart"`}) {
		t.Errorf("HelmChart: %q", got)
	}
}

func TestCheckSpec(t *testing.T) {
	tests := map[string]struct {
		change      func(*pass)
		wantReason  string
		wantMessage string
	}{
		"fine": {change: func(*pass) {}},
		"a kind of source": {change: func(p *pass) { p.ks.Spec.SourceRef.Kind = "HelmChart" },
			wantReason:  "FieldNotSupported",
			wantMessage: "spec.sourceRef.kind \"HelmChart\": not supported by this version of holdfast; nothing is applied or pruned until it is removed from the spec"},
		"an annotation with a value that there is not": {change: func(p *pass) { p.ks.Annotations = map[string]string{v1.AnnotationRetain: "Forever"} },
			wantReason:  "InvalidPolicy",
			wantMessage: `holdfast.dev/retain is "Forever": want InUse, History or None; nothing is applied or pruned until it is corrected`},
		"an annotation that there is not": {change: func(p *pass) { p.ks.Annotations = map[string]string{"holdfast.dev/retian": "None"} },
			wantReason:  "InvalidPolicy",
			wantMessage: "there is no annotation holdfast.dev/retian; nothing is applied or pruned until it is corrected"},
		"P66 an account for decryption": {change: func(p *pass) { p.ks.Spec.Decryption = &fluxv1.Decryption{ServiceAccountName: "x"} },
			wantReason: "FeatureGateDisabled",
			wantMessage: "spec.decryption.serviceAccountName needs the feature gate ObjectLevelWorkloadIdentity: start holdfast with " +
				"--feature-gates=ObjectLevelWorkloadIdentity=true, put the credentials into the Secret of spec.decryption.secretRef, " +
				"or leave the field out to use those of the controller"},
		"P66 an account for decryption, with its gate": {change: func(p *pass) {
			p.ks.Spec.Decryption, p.ObjectLevelIdentity = &fluxv1.Decryption{ServiceAccountName: "x"}, true
		}},
		"another namespace": {change: func(p *pass) { p.ks.Spec.SourceRef.Namespace = "other" }},
		"another namespace, forbidden": {change: func(p *pass) { p.ks.Spec.SourceRef.Namespace, p.NoCrossNamespaceRefs = "other", true },
			wantReason: "AccessDenied", wantMessage: "can't access 'GitRepository/other/repo', cross-namespace references have been blocked"},
		"its own namespace by name": {change: func(p *pass) { p.ks.Spec.SourceRef.Namespace, p.NoCrossNamespaceRefs = "flux-system", true }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ks := newKustomization()
			ks.Spec = plainSpec()
			p := passOn(ks)
			tt.change(p)
			got := p.checkSpec(t.Context())
			switch {
			case got == nil && tt.wantReason != "":
				t.Error("not refused")
			case got != nil && (got.state != stateStalled || got.reason != tt.wantReason || got.message != tt.wantMessage):
				t.Errorf("%+v", got)
			}
		})
	}
}
