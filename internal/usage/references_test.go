package usage_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// strs names the references of one object.
func strs(t testing.TB, doc string) []string {
	t.Helper()
	refs, err := usage.References(objects(t, doc)[0])
	if err != nil {
		t.Fatalf("%v in\n%s", err, doc)
	}
	var out []string
	for _, id := range refs {
		if !usage.CanBeUsed(id) {
			t.Errorf("%s is referred to, but its kind is said not to be", id)
		}
		out = append(out, id.String())
	}
	return out
}

// inContainer are the ways of a container to refer to something.
var inContainer = map[string]string{
	`env: [{name: A, valueFrom: {configMapKeyRef: {name: x, key: k}}}]`:                 "ConfigMap/shop/x",
	`env: [{name: A, valueFrom: {configMapKeyRef: {name: x, key: k, optional: true}}}]`: "ConfigMap/shop/x",
	`env: [{name: A, valueFrom: {secretKeyRef: {name: x, key: k}}}]`:                    "Secret/shop/x",
	`envFrom: [{configMapRef: {name: x}}]`:                                              "ConfigMap/shop/x",
	`envFrom: [{prefix: P, secretRef: {name: x, optional: true}}]`:                      "Secret/shop/x",
	`env: [{name: A, valueFrom: {fileKeyRef: {path: f, key: k, volumeName: x}}}]`:       "",
	`env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]`:               "",
	`env: [{name: A, value: x}]`:                                                        "",
	`env: null`:                                                                         "",
	`envFrom: [null, {configMapRef: null}]`:                                             "",
}

// inPod are the ways of a pod spec to refer to something.
var inPod = map[string]string{
	`volumes: [{name: v, configMap: {name: x}}]`:                                                                                     "ConfigMap/shop/x",
	`volumes: [{name: v, configMap: {name: x, optional: true}}]`:                                                                     "ConfigMap/shop/x",
	`volumes: [{name: v, secret: {secretName: x}}]`:                                                                                  "Secret/shop/x",
	`volumes: [{name: v, projected: {sources: [{configMap: {name: x}}]}}]`:                                                           "ConfigMap/shop/x",
	`volumes: [{name: v, projected: {sources: [{downwardAPI: {}}, {secret: {name: x}}]}}]`:                                           "Secret/shop/x",
	`volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]`:                                                 "",
	`volumes: [{name: v, projected: {sources: [{clusterTrustBundle: {name: x, path: p}}]}}]`:                                         "ClusterTrustBundle/x",
	`volumes: [{name: v, persistentVolumeClaim: {claimName: x}}]`:                                                                    "PersistentVolumeClaim/shop/x",
	`volumes: [{name: v, csi: {driver: d, nodePublishSecretRef: {name: x}}}]`:                                                        "Secret/shop/x",
	`volumes: [{name: v, cephfs: {secretRef: {name: x}}}]`:                                                                           "Secret/shop/x",
	`volumes: [{name: v, cinder: {secretRef: {name: x}}}]`:                                                                           "Secret/shop/x",
	`volumes: [{name: v, rbd: {secretRef: {name: x}}}]`:                                                                              "Secret/shop/x",
	`volumes: [{name: v, iscsi: {secretRef: {name: x}}}]`:                                                                            "Secret/shop/x",
	`volumes: [{name: v, flexVolume: {driver: d, secretRef: {name: x}}}]`:                                                            "Secret/shop/x",
	`volumes: [{name: v, scaleIO: {secretRef: {name: x}}}]`:                                                                          "Secret/shop/x",
	`volumes: [{name: v, storageos: {secretRef: {name: x}}}]`:                                                                        "Secret/shop/x",
	`volumes: [{name: v, azureFile: {secretName: x}}]`:                                                                               "Secret/shop/x",
	`volumes: [{name: v, glusterfs: {endpoints: x, path: p}}]`:                                                                       "Endpoints/shop/x",
	`volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: x}}}}]`:                                          "StorageClass/x",
	`volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {volumeAttributesClassName: x}}}}]`:                                 "VolumeAttributesClass/x",
	`volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {dataSource: {kind: PersistentVolumeClaim, name: x}}}}}]`:           "PersistentVolumeClaim/shop/x",
	`volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {dataSourceRef: {kind: VolumeSnapshot, namespace: o, name: x}}}}}]`: "VolumeSnapshot/o/x",
	`volumes: [{name: v, emptyDir: {}}, {name: w, hostPath: {path: /x}}]`:                                                            "",
	`imagePullSecrets: [{name: x}]`:                                                                                                  "Secret/shop/x",
	`serviceAccountName: x`:                                                                                                          "ServiceAccount/shop/x",
	`serviceAccount: x`:                                                                                                              "ServiceAccount/shop/x",
	`serviceAccountName: x, serviceAccount: old`:                                                                                     "ServiceAccount/shop/x",
	`priorityClassName: x`:                                      "PriorityClass/x",
	`runtimeClassName: x`:                                       "RuntimeClass/x",
	`resourceClaims: [{name: r, resourceClaimName: x}]`:         "ResourceClaim/shop/x",
	`resourceClaims: [{name: r, resourceClaimTemplateName: x}]`: "ResourceClaimTemplate/shop/x",
	`schedulingGroup: {podGroupName: x}`:                        "PodGroup/shop/x",
}

// holders are all places of a pod spec.
var holders = map[string]string{
	"v1 Pod":                     "spec: %s",
	"v1 PodTemplate":             "template: {spec: %s}",
	"v1 ReplicationController":   "spec: {template: {spec: %s}}",
	"apps/v1 Deployment":         "spec: {template: {spec: %s}}",
	"apps/v1 ReplicaSet":         "spec: {template: {spec: %s}}",
	"apps/v1 StatefulSet":        "spec: {template: {spec: %s}}",
	"apps/v1 DaemonSet":          "spec: {template: {spec: %s}}",
	"apps/v1 ControllerRevision": "data: {spec: {template: {$patch: replace, spec: %s}}}",
	"batch/v1 Job":               "spec: {template: {spec: %s}}",
	"batch/v1 CronJob":           "spec: {jobTemplate: {spec: {template: {spec: %s}}}}",
	"example.com/v1 Anything":    "spec: {parts: [{deep: {spec: %s}}]}",
}

func TestReferencesInEveryPlace(t *testing.T) {
	specs := map[string]string{"{containers: []}": ""}
	for text, want := range inContainer {
		specs["{containers: [{name: other}, {name: c, "+text+"}]}"] = want
		for _, list := range []string{"initContainers", "ephemeralContainers"} {
			specs["{containers: [], "+list+": [{name: other}, {name: c, "+text+"}]}"] = want
		}
	}
	for text, want := range inPod {
		specs["{containers: [], "+text+"}"] = want
	}
	for holder, format := range holders {
		apiVersion, kind, _ := strings.Cut(holder, " ")
		for spec, want := range specs {
			got := strs(t, fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: u}\n", apiVersion, kind)+fmt.Sprintf(format, spec))
			var all []string
			if want != "" {
				all = append(all, want)
			}
			if !strings.HasPrefix(want, "ServiceAccount/") {
				all = append(all, "ServiceAccount/shop/default")
			}
			slices.Sort(all)
			slices.Sort(got)
			if kind == "Anything" && strings.Contains(spec, "dataSource") {
				// Sources of claims are read in Kubernetes' own kinds only.
				continue
			}
			if !slices.Equal(got, all) {
				t.Errorf("%s %s:\ngot  %q\nwant %q", kind, spec, got, all)
			}
		}
	}
}

func TestReferencesOutsideOfPodSpecs(t *testing.T) {
	tests := map[string]struct {
		doc  string
		want []string
	}{
		"stateful set": {
			doc: "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: u}\nspec: {serviceName: s, volumeClaimTemplates: " +
				"[{spec: {storageClassName: c, dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: snap}}}]}",
			want: []string{"Service/shop/s", "VolumeSnapshot/shop/snap", "StorageClass/c"},
		},
		"claim":           {doc: "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: u}\nspec: {storageClassName: c}", want: []string{"StorageClass/c"}},
		"service account": {doc: "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: u}\nimagePullSecrets: [{name: p}]\nsecrets: [{name: s}]", want: []string{"Secret/shop/p", "Secret/shop/s"}},
		"ingress": {
			doc: "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: u}\nspec: {tls: [{secretName: t}], defaultBackend: {service: {name: d}}, " +
				"rules: [{http: {paths: [{backend: {service: {name: b}}}, {backend: {resource: {name: r}}}]}}, {host: h}]}",
			want: []string{"Secret/shop/t", "Service/shop/b", "Service/shop/d"},
		},
		"gateway": {
			doc: "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: u}\nspec: {listeners: [{tls: {certificateRefs: " +
				"[{name: a}, {kind: Secret, group: '', namespace: certs, name: b}, {kind: ConfigMap, name: c}, {kind: Other, group: x, name: d}]}}, {name: plain}]}",
			want: []string{"ConfigMap/shop/c", "Secret/certs/b", "Secret/shop/a"},
		},
		"webhook":     {doc: "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: u}\nwebhooks: [{clientConfig: {service: {namespace: hooks, name: s}}}, {clientConfig: {url: x}}]", want: []string{"Service/hooks/s"}},
		"api service": {doc: "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: u}\nspec: {service: {namespace: hooks, name: s}}", want: []string{"Service/hooks/s"}},
		"crd":         {doc: "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: u}\nspec: {conversion: {webhook: {clientConfig: {service: {namespace: hooks, name: s}}}}}", want: []string{"Service/hooks/s"}},
		"config map":  {doc: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: u}\ndata: {containers: x}"},
		"custom resource with other fields": {
			doc:  "apiVersion: x/v1\nkind: Y\nmetadata: {name: u}\nspec: {containers: [{envFrom: {a: b}}, 5], volumes: {a: 1}, imagePullSecrets: [{name: p}]}",
			want: []string{"Secret/shop/p", "ServiceAccount/shop/default"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := strs(t, tt.doc); !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestCanBeUsed(t *testing.T) {
	for id, want := range map[object.ID]bool{
		{Kind: "ConfigMap"}: true,
		{Kind: "Service"}:   true,
		{Group: "storage.k8s.io", Kind: "StorageClass"}:   true,
		{Group: "apps", Kind: "Deployment"}:               false,
		{Group: "example.com", Kind: "Secret"}:            false,
		{Kind: "Namespace"}:                               false,
		{Group: "resource.k8s.io", Kind: "ResourceClaim"}: true,
	} {
		if got := usage.CanBeUsed(id); got != want {
			t.Errorf("%v: %v, want %v", id, got, want)
		}
	}
}
