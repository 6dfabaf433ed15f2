// Package config carries the generated manifests that the program brings along.
//
// The files below crd are written by `make generate`: the Kustomization CRD from this repository's api/v1, the source
// CRDs from the API module of Flux's source-controller. None of them is edited by hand.
package config

import "embed"

// CRDs holds the CustomResourceDefinitions, one file each, below the directory crd.
//
//go:embed crd/*.yaml
var CRDs embed.FS
