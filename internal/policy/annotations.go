package policy

import (
	"slices"
	"strings"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// Annotations are those of a Kustomization that are holdfast's.
func Annotations(ks *v1.Kustomization) map[string]string {
	out := map[string]string{}
	for key, value := range ks.GetAnnotations() {
		if strings.HasPrefix(key, v1.AnnotationPrefix) {
			out[key] = value
		}
	}
	return out
}

// UnknownAnnotations lists the annotations with holdfast's prefix that are in no table. One that is ignored in silence is
// worse than one that is refused: the user would believe it works.
func UnknownAnnotations(ks *v1.Kustomization) []string {
	var unknown []string
	for key := range Annotations(ks) {
		if !slices.ContainsFunc(v1.Annotations, func(a v1.Annotation) bool { return a.Key == key && a.On == v1.OnKustomization }) {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	return unknown
}
