package usage_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// planter builds random pod specs with the types of the API and records every reference that it plants.
type planter struct {
	t       *rapid.T
	n       int
	planted []object.ID
}

func (p *planter) name(kind string) string {
	p.n++
	name := fmt.Sprintf("x%d", p.n)
	p.planted = append(p.planted, object.ID{Kind: kind, Namespace: "shop", Name: name})
	return name
}

func (p *planter) ref(kind string) corev1.LocalObjectReference {
	return corev1.LocalObjectReference{Name: p.name(kind)}
}

func (p *planter) chance(label string) bool { return rapid.Bool().Draw(p.t, label) }

func (p *planter) times(label string) int { return rapid.IntRange(0, 3).Draw(p.t, label) }

func (p *planter) env() (vars []corev1.EnvVar, from []corev1.EnvFromSource) {
	for i := range p.times("env") {
		v := corev1.EnvVar{Name: fmt.Sprint("V", i), Value: "x"}
		switch rapid.IntRange(0, 2).Draw(p.t, "source") {
		case 1:
			v.ValueFrom = &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: p.ref("ConfigMap")}}
		case 2:
			v.ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: p.ref("Secret")}}
		}
		vars = append(vars, v)
	}
	for range p.times("envFrom") {
		if p.chance("secret") {
			from = append(from, corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: p.ref("Secret")}})
		} else {
			from = append(from, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: p.ref("ConfigMap")}})
		}
	}
	return vars, from
}

func (p *planter) volume() corev1.VolumeSource {
	switch rapid.IntRange(0, 5).Draw(p.t, "volume") {
	case 0:
		return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	case 1:
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: p.name("Secret")}}
	case 2:
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: p.ref("ConfigMap")}}
	case 3:
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.name("PersistentVolumeClaim")}}
	case 4:
		secret := p.ref("Secret")
		return corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d", NodePublishSecretRef: &secret}}
	default:
		var sources []corev1.VolumeProjection
		for range p.times("projected") {
			sources = append(sources, corev1.VolumeProjection{
				Secret:    &corev1.SecretProjection{LocalObjectReference: p.ref("Secret")},
				ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: p.ref("ConfigMap")},
			})
		}
		return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}
	}
}

func (p *planter) spec() corev1.PodSpec {
	var spec corev1.PodSpec
	for i := range p.times("containers") {
		vars, from := p.env()
		spec.Containers = append(spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Env: vars, EnvFrom: from})
	}
	for i := range p.times("init") {
		vars, from := p.env()
		spec.InitContainers = append(spec.InitContainers, corev1.Container{Name: fmt.Sprint("i", i), Env: vars, EnvFrom: from})
	}
	for i := range p.times("ephemeral") {
		vars, from := p.env()
		spec.EphemeralContainers = append(spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: fmt.Sprint("e", i), Env: vars, EnvFrom: from},
		})
	}
	for i := range p.times("volumes") {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: p.volume()})
	}
	for range p.times("pull") {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, p.ref("Secret"))
	}
	if p.chance("account") {
		spec.ServiceAccountName = p.name("ServiceAccount")
	} else {
		p.planted = append(p.planted, object.ID{Kind: "ServiceAccount", Namespace: "shop", Name: "default"})
	}
	return spec
}

// TestPlanted: exactly what was planted is found, in a pod and through Find.
func TestPlanted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &planter{t: t}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Pod{Spec: p.spec()})
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{Object: content}
		u.SetAPIVersion("v1")
		u.SetKind("Pod")
		u.SetName("p")
		u.SetNamespace("shop")
		got, err := usage.References(u)
		if err != nil {
			t.Fatal(err)
		}
		want := slices.Clone(p.planted)
		slices.SortFunc(want, object.Compare)
		if !slices.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
		// Targets that nobody planted stay without users.
		targets := object.NewSet(append(want, object.ID{Kind: "Secret", Namespace: "shop", Name: "stranger"})...)
		users, err := usage.Find(targets, usage.Live{u})
		if err != nil || len(users) != len(object.NewSet(want...)) {
			t.Fatalf("%d targets in use, want %d (%v)", len(users), len(want), err)
		}
	})
}

// words are field names that lead the rules on, and kinds and values that they look at.
var words = []string{"spec", "template", "data", "status", "jobTemplate", "containers", "initContainers", "env", "envFrom",
	"valueFrom", "configMapKeyRef", "secretRef", "name", "volumes", "projected", "sources", "configMap", "secret", "secretName",
	"imagePullSecrets", "serviceAccountName", "volumeClaimTemplates", "metadata", "phase", "conditions", "type", "replicas",
	"ephemeral", "volumeClaimTemplate", "dataSource", "kind", "currentRevision", "labels", "ownerReferences", "annotations"}

// tree generates JSON values out of these words.
func tree(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		top := 5
		if depth == 0 {
			top = 3
		}
		switch rapid.IntRange(0, top).Draw(t, "shape") {
		case 0:
			return nil
		case 1:
			return rapid.SampledFrom(words).Draw(t, "word")
		case 2:
			return rapid.Int64().Draw(t, "number")
		case 3:
			return rapid.Bool().Draw(t, "flag")
		case 4:
			items := make([]any, rapid.IntRange(0, 3).Draw(t, "items"))
			for i := range items {
				items[i] = tree(depth-1).Draw(t, "item")
			}
			return items
		default:
			m := map[string]any{}
			for range rapid.IntRange(0, 5).Draw(t, "fields") {
				m[rapid.SampledFrom(words).Draw(t, "key")] = tree(depth-1).Draw(t, "value")
			}
			return m
		}
	})
}

// TestNeverPanics: malformed objects are errors that say so, the order of the input does not matter, and what is found
// in a set of objects is found in a larger one.
func TestNeverPanics(t *testing.T) {
	var kinds []string
	for _, k := range usage.UserKinds {
		kinds = append(kinds, k.GroupVersion().String()+" "+k.Kind)
	}
	for holder := range holders {
		kinds = append(kinds, holder)
	}
	slices.Sort(kinds)
	targets := object.NewSet(cfg, object.ID{Kind: "Secret", Namespace: "shop", Name: "name"},
		object.ID{Kind: "ConfigMap", Namespace: "shop", Name: "spec"})
	rapid.Check(t, func(t *rapid.T) {
		var live usage.Live
		for range rapid.IntRange(1, 4).Draw(t, "objects") {
			apiVersion, kind, _ := strings.Cut(rapid.SampledFrom(kinds).Draw(t, "kind"), " ")
			content := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{
				"name": rapid.SampledFrom(words).Draw(t, "name"), "namespace": "shop"}}
			for _, part := range []string{"spec", "status", "data", "template"} {
				content[part] = tree(4).Draw(t, part)
			}
			live = append(live, &unstructured.Unstructured{Object: content})
		}
		got, err := usage.Find(targets, live)
		var malformed *usage.MalformedError
		if err != nil && !errors.As(err, &malformed) {
			t.Fatalf("error of type %T", err)
		}
		again, errAgain := usage.Find(targets, rapid.Permutation(live).Draw(t, "order"))
		if !reflect.DeepEqual(got, again) || fmt.Sprint(err) != fmt.Sprint(errAgain) {
			t.Fatalf("%v %v\n%v %v", got, err, again, errAgain)
		}
	})
}

// FuzzReferences decodes arbitrary JSON as an object: neither function may panic, and they have to agree about a pod.
func FuzzReferences(f *testing.F) {
	f.Add(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"shop"},"spec":{"containers":[{"envFrom":[{"configMapRef":{"name":"cfg"}}]}]}}`)
	f.Add(`{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"volumeClaimTemplates":[{"spec":{"dataSource":5}}]},"status":{"currentRevision":[]}}`)
	f.Add(`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"paused":"x","template":null}}`)
	f.Fuzz(func(t *testing.T, text string) {
		u := &unstructured.Unstructured{}
		if json.Unmarshal([]byte(text), &u.Object) != nil || u.Object == nil {
			return
		}
		refs, err := usage.References(u)
		users, findErr := usage.Find(object.NewSet(refs...), usage.Live{u})
		if findErr == nil && len(users) > len(refs) {
			t.Errorf("%d targets have users, of %d references", len(users), len(refs))
		}
		if err == nil && findErr == nil && u.GetKind() == "Pod" && u.GetAPIVersion() == "v1" {
			if phase, _, _ := unstructured.NestedString(u.Object, "status", "phase"); phase == "" && len(users) != len(refs) {
				t.Errorf("%d targets have users, want %d", len(users), len(refs))
			}
		}
	})
}
