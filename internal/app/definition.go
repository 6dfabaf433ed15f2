package app

import (
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-gitops/holdfast/config"
)

// kustomizationFile is the definition of Kustomizations that belongs to this program.
const kustomizationFile = "crd/kustomize.toolkit.fluxcd.io_kustomizations.yaml"

// lackingFields are the fields of status.rollout and spec.rollout that the served definition of Kustomizations does not have, and
// this program writes or reads. An API server drops such a field without an error.
func lackingFields(served *apiextensionsv1.CustomResourceDefinitionVersion) ([]string, error) {
	text, err := config.CRDs.ReadFile(kustomizationFile)
	if err != nil {
		return nil, fmt.Errorf("read the embedded CRD: %w", err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(text, crd); err != nil {
		return nil, fmt.Errorf("parse the embedded CRD: %w", err)
	}
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == servedVersion })
	if i < 0 {
		return nil, fmt.Errorf("the embedded CRD has no version %s", servedVersion)
	}
	var lacking []string
	for _, part := range []string{"spec", "status"} {
		path := part + ".rollout"
		wanted := rolloutOf(&crd.Spec.Versions[i], part)
		if there := rolloutOf(served, part); there == nil {
			lacking = append(lacking, path)
		} else {
			lacking = append(lacking, lackingIn(*wanted, *there, path)...)
		}
	}
	return lacking, nil
}

// rolloutOf is the schema of the rollout in a part of the object; nil when there is none.
func rolloutOf(version *apiextensionsv1.CustomResourceDefinitionVersion, part string) *apiextensionsv1.JSONSchemaProps {
	if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
		return nil
	}
	schema, ok := version.Schema.OpenAPIV3Schema.Properties[part].Properties["rollout"]
	if !ok {
		return nil
	}
	return &schema
}

func lackingIn(wanted, served apiextensionsv1.JSONSchemaProps, path string) []string {
	if served.XPreserveUnknownFields != nil && *served.XPreserveUnknownFields {
		return nil
	}
	var lacking []string
	for _, name := range slices.Sorted(maps.Keys(wanted.Properties)) {
		there, ok := served.Properties[name]
		if !ok {
			lacking = append(lacking, path+"."+name)
			continue
		}
		lacking = append(lacking, lackingIn(wanted.Properties[name], there, path+"."+name)...)
	}
	if wanted.Items != nil && wanted.Items.Schema != nil && served.Items != nil && served.Items.Schema != nil {
		lacking = append(lacking, lackingIn(*wanted.Items.Schema, *served.Items.Schema, path+"[]")...)
	}
	return lacking
}
