package main

import (
	"fmt"
	"strings"
)

// stuckPath is the directory of what never becomes ready: the simulated runtime can't pull an image with that tag.
const stuckPath = "stuck"

// tree is the content of the repository for n Kustomizations at a version.
func tree(s settings, n, version int) map[string]string {
	files := map[string]string{stuckPath + "/web.yaml": fmt.Sprintf(deployment, "web", 1, "web", "web", "missing", "none")}
	for i := 1; i <= n; i++ {
		path := appPath(i)
		files[path+"/kustomization.yaml"] = fmt.Sprintf("resources: [objects.yaml]\nconfigMapGenerator: [{name: %s, literals: [version=%d]}]\n", appName(i), version)
		files[path+"/objects.yaml"] = strings.Join(manifests(s, i, s.objects), "---\n")
	}
	return files
}

// least is the smallest number of objects of a Kustomization: one of each kind, and the generated one.
const least = 5

func appName(i int) string { return fmt.Sprintf("app-%04d", i) }

func appPath(i int) string { return fmt.Sprintf("apps/%04d", i) }

// manifests are the objects of one Kustomization beside its generated ConfigMap, which counts as one of them. There are as many
// ConfigMaps as it takes.
func manifests(s settings, i, objects int) []string {
	name, replicas := appName(i), 0
	if s.pods {
		replicas = 1
	}
	list := []string{
		fmt.Sprintf(deployment, name, replicas, name, name, "1", name),
		fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: %s}\n", name),
		fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec: {selector: {app: %s}, ports: [{port: 80}]}\n", name, name),
	}
	for n := 1; n == 1 || len(list) < objects-1; n++ {
		list = append(list, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s-%d}\ndata: {key: value}\n", name, n))
	}
	return list
}

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: %s}
spec:
  replicas: %d
  selector: {matchLabels: {app: %s}}
  template:
    metadata: {labels: {app: %s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: registry.example/main:%s
        envFrom: [{configMapRef: {name: %s}}]
`
