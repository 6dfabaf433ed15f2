package main

import (
	"cmp"
	"fmt"
	"strings"
)

// release is one version of the app.
type release struct {
	version, image, greeting string
}

// The versions of the story. The simulated runtime can't pull an image with the tag "missing".
var (
	first  = release{version: "v1", image: "registry.example/shop:1", greeting: "hello"}
	broken = release{version: "v2", image: "registry.example/shop:missing", greeting: "good-day"}
	fixed  = release{version: "v3", image: "registry.example/shop:3", greeting: "welcome"}
)

// files are what is committed for a release. The ConfigMap gets a new name with every change of its content.
func (r release) files() map[string]string {
	return map[string]string{
		"kustomization.yaml": fmt.Sprintf(`apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [shop.yaml]
configMapGenerator:
- name: shop-config
  literals: [GREETING=%s]
  options: {labels: {app: shop}}
`, r.greeting),
		"shop.yaml": fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: %d
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: shop
        image: %s
        envFrom:
        - configMapRef: {name: shop-config}
`, replicas, r.image),
	}
}

const (
	// longTimeout is longer than anybody watches, and shortTimeout is one that the story waits for.
	longTimeout, shortTimeout = "10m", "30s"

	replicas = 3
	// appName is the name of the source, the Kustomization and the Deployment.
	appName = "shop"
	// configPrefix begins the names of the generated ConfigMaps.
	configPrefix = "shop-config-"
)

// kustomization is the manifest of the Kustomization, as the story shows it.
func kustomization(namespace, rollout, timeout string) string {
	return fmt.Sprintf(`apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: shop, namespace: %[1]s}
spec:
  sourceRef: {kind: GitRepository, name: shop}
  targetNamespace: %[1]s
  interval: 10m
  prune: true
  wait: true
  timeout: %[3]s
%[2]s`, namespace, rollout, cmp.Or(timeout, longTimeout))
}

// namespaceAndSource are the manifests of what the Kustomization needs. The source is checked every second, so that the
// story needs no webhook.
func namespaceAndSource(namespace, url string) string {
	return strings.Join([]string{
		fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", namespace),
		fmt.Sprintf(`apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: shop, namespace: %s}
spec:
  url: %s
  ref: {branch: main}
  interval: 1s
`, namespace, url),
	}, "---\n")
}
