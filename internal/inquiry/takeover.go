package inquiry

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/report"
	"github.com/holdfast-gitops/holdfast/internal/revision"
	"github.com/holdfast-gitops/holdfast/internal/rival"
)

// concurrentReads is how many objects of inventories are read at the same time.
const concurrentReads = 8

// fluxInstance is the kind by which Flux's operator installs Flux.
var fluxInstance = schema.GroupVersionKind{Group: "fluxcd.controlplane.io", Version: "v1", Kind: "FluxInstance"}

// Takeover reads what holdfast takes over from Flux: the Kustomizations of a namespace, or of all when it is empty, every object of
// their inventories, and Flux itself. The controllers are those that holdfast is going to run.
func (q *Inquirer) Takeover(ctx context.Context, namespace string, controllers []string, now time.Time) (report.Takeover, error) {
	f := report.TakeoverFacts{}
	var err error
	if f.Definition, err = q.definition(ctx); err != nil {
		return report.Takeover{}, err
	}
	if f.Definition != report.DefinitionAbsent {
		if f.Kustomizations, err = q.kustomizations(ctx, namespace); err != nil {
			return report.Takeover{}, err
		}
		f.Rivals, err = app.FindRivals(ctx, q.reader, app.Options{Controllers: controllers, Namespace: namespace, WatchAllNamespaces: namespace == ""}, now)
		if err != nil {
			return report.Takeover{}, failed("find out whether Flux is at work", "leases.coordination.k8s.io", err)
		}
	}
	f.Objects, f.Unread = q.inventoried(ctx, f.Kustomizations)
	var missing []string
	f.Workloads, missing = q.workloads(ctx, namespace, controllers)
	f.Missing = append(f.Missing, missing...)
	f.FluxInstances, missing = q.fluxInstances(ctx, namespace)
	f.Missing = append(f.Missing, missing...)
	return report.TakeoverOf(f, now), nil
}

// Handback reads whether Flux may take over the Kustomizations of a namespace, or of all when it is empty.
func (q *Inquirer) Handback(ctx context.Context, namespace string, now time.Time) (report.Handback, error) {
	f := report.HandbackFacts{}
	var err error
	if f.Kustomizations, err = q.kustomizations(ctx, namespace); err != nil {
		return report.Handback{}, err
	}
	if f.Definition, err = q.definition(ctx); err != nil {
		return report.Handback{}, err
	}
	var missing []string
	f.Workloads, missing = q.workloads(ctx, namespace, []string{app.ControllerKustomization})
	f.Missing = append(f.Missing, missing...)
	if f.Own, err = app.FindOwn(ctx, q.reader, namespace, now); err != nil {
		f.Missing = append(f.Missing, lacking("list leases"+in(namespace), err, "whether holdfast runs is not known"))
	}
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "SecretList"})
	err = q.reader.List(ctx, secrets, client.InNamespace(namespace), client.MatchingFields{"type": string(revision.SecretType)})
	if err != nil {
		f.Missing = append(f.Missing, lacking("list secrets"+in(namespace), err, "stored revisions are not counted"))
	}
	f.Revisions = len(secrets.Items)
	return report.HandbackOf(f), nil
}

// definition tells whose definition of Kustomizations the cluster has.
func (q *Inquirer) definition(ctx context.Context) (report.DefinitionState, error) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	err := q.reader.Get(ctx, client.ObjectKey{Name: rival.Definition}, crd)
	switch {
	case observe.IsAbsent(err):
		return report.DefinitionAbsent, nil
	case err != nil:
		return "", failed("get CustomResourceDefinition "+rival.Definition, "customresourcedefinitions.apiextensions.k8s.io", err)
	case rival.IsStockDefinition(crd):
		return report.DefinitionFlux, nil
	}
	return report.DefinitionOwn, nil
}

// inventoried reads the metadata of every object of the inventories that is on this cluster: nil for one that a working API said
// does not exist; one that could not be read has an error instead.
func (q *Inquirer) inventoried(ctx context.Context, all []v1.Kustomization) (map[object.ID]*metav1.PartialObjectMetadata, map[object.ID]string) {
	var mu sync.Mutex
	found, unread := map[object.ID]*metav1.PartialObjectMetadata{}, map[object.ID]string{}
	group := errgroup.Group{}
	group.SetLimit(concurrentReads)
	for i := range all {
		if all[i].Spec.KubeConfig != nil {
			continue
		}
		for _, entry := range inventory.Decode(all[i].Status.Inventory).Entries() {
			group.Go(func() error {
				obj := &metav1.PartialObjectMetadata{}
				obj.SetGroupVersionKind(entry.ID.GroupKind().WithVersion(entry.Version))
				err := q.reader.Get(ctx, client.ObjectKey{Namespace: entry.ID.Namespace, Name: entry.ID.Name}, obj)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					found[entry.ID] = obj
				case observe.IsAbsent(err):
					found[entry.ID] = nil
				default:
					unread[entry.ID] = err.Error()
				}
				return nil
			})
		}
	}
	_ = group.Wait() // the functions return no error
	return found, unread
}

// workloads finds the installed controllers of Flux that do the work of the given ones.
func (q *Inquirer) workloads(ctx context.Context, namespace string, controllers []string) (found []report.Workload, missing []string) {
	list := &appsv1.DeploymentList{}
	if err := q.reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, []string{lacking("list deployments"+in(namespace), err, "whether Flux is installed is not known")}
	}
	names := app.Options{Controllers: controllers}.Rivals()
	for i := range list.Items {
		d := &list.Items[i]
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
		if err != nil {
			missing = append(missing, lacking("read Deployment "+d.Namespace+"/"+d.Name, err, "it is not looked at"))
			continue
		}
		obj := &unstructured.Unstructured{Object: content}
		controller := rival.ControllerOf(obj, names)
		if controller == "" {
			continue
		}
		found = append(found, report.Workload{
			ID:         object.ID{Group: appsv1.GroupName, Kind: "Deployment", Namespace: d.Namespace, Name: d.Name},
			Controller: controller, Stopped: rival.IsStopped(obj), InGit: rival.Sets(d.ManagedFields, v1.ApplyManager, "replicas"),
		})
	}
	return found, missing
}

// fluxInstances lists the objects of Flux's operator, as namespace/name.
func (q *Inquirer) fluxInstances(ctx context.Context, namespace string) (found, missing []string) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(fluxInstance.GroupVersion().WithKind(fluxInstance.Kind + "List"))
	err := q.reader.List(ctx, list, client.InNamespace(namespace))
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, []string{lacking("list fluxinstances"+in(namespace), err, "whether an operator looks after Flux is not known")}
	}
	for _, instance := range list.Items {
		if instance.Annotations[fluxInstance.Group+"/reconcile"] != "disabled" {
			found = append(found, instance.Namespace+"/"+instance.Name)
		}
	}
	return found, nil
}
