// Package inquiry reads from a cluster what the command line reports: for `holdfast status` the Kustomizations and their
// sources, for `holdfast why` an object, its Kustomization, its users, and the pods of a failing workload.
//
// It reads with the rights of the caller and needs few: Kustomizations alone make an answer. What else could not be read
// becomes a line in the answer's missingRights, never an error. Nothing here writes, and nothing decides: the answers
// are made by internal/report, and the users of an object found by internal/observe, as for the controller itself.
package inquiry

import (
	"context"
	"fmt"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/observe"
)

// Inquirer reads one cluster.
type Inquirer struct {
	config   *rest.Config
	reader   client.Reader
	client   client.Client
	mapper   meta.RESTMapper
	observer *observe.Observer
}

// New connects to a cluster. Nothing is asked yet.
func New(config *rest.Config) (*Inquirer, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // a person waits, and the API server shares out its capacity itself
	scheme, err := app.NewScheme()
	if err != nil {
		return nil, err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	cached := memory.NewMemCacheClient(disco)
	// A short name that two kinds have is told by kind, with the choices, so that the library's warning says nothing new.
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, func(string) {})
	reader, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return &Inquirer{
		config:   config,
		reader:   reader,
		client:   reader,
		mapper:   mapper,
		observer: &observe.Observer{Reader: reader, Mapper: mapper, Discovery: disco},
	}, nil
}

// kustomizations lists the Kustomizations of a namespace, or of all when it is empty.
func (q *Inquirer) kustomizations(ctx context.Context, namespace string) ([]v1.Kustomization, error) {
	list := &v1.KustomizationList{}
	if err := q.reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, failed("list Kustomizations"+in(namespace), kustomizationResource, err)
	}
	return list.Items, nil
}

// kustomization reads one Kustomization.
func (q *Inquirer) kustomization(ctx context.Context, namespace, name string) (*v1.Kustomization, error) {
	ks := &v1.Kustomization{}
	err := q.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, ks)
	if observe.IsAbsent(err) {
		return nil, notFoundf("no Kustomization %s in namespace %s: give another --namespace, or see `holdfast status -A`", name, namespace)
	}
	if err != nil {
		return nil, failed("get Kustomization "+namespace+"/"+name, kustomizationResource, err)
	}
	return ks, nil
}

// gitRepository reads a source; nil when it does not exist, with the missing right when it could not be read.
func (q *Inquirer) gitRepository(ctx context.Context, key client.ObjectKey) (source *sourcev1.GitRepository, missing string) {
	source = &sourcev1.GitRepository{}
	err := q.reader.Get(ctx, key, source)
	switch {
	case err == nil:
		return source, ""
	case apierrors.IsNotFound(err):
		return nil, ""
	}
	return nil, lacking("get gitrepositories"+in(key.Namespace), err, "what their sources offer is not shown")
}

func in(namespace string) string {
	if namespace == "" {
		return " in all namespaces"
	}
	return " in namespace " + namespace
}
