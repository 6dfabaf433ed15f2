package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/testkit/cluster"
	"github.com/holdfast-gitops/holdfast/internal/testkit/gitserver"
)

// namespace holds all of a run, and repository is the name of the Git repository and of its source.
const (
	namespace  = "bench"
	repository = "fleet"
)

// world is what a run takes place in.
type world struct {
	settings
	dir        string
	cluster    *cluster.Cluster
	git        *gitserver.Server
	kube       client.WithWatch
	controller *controller
	// revision is the last commit, and version counts them.
	revision string
	version  int
}

// newWorld starts everything but the controller.
func newWorld(ctx context.Context, s settings) (*world, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	w := &world{settings: s, dir: dir}
	if err := w.open(ctx); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *world) open(ctx context.Context) error {
	var err error
	if w.cluster, err = cluster.Start(ctx, cluster.Options{Own: true}); err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	scheme, err := app.NewScheme()
	if err != nil {
		return err
	}
	if w.kube, err = client.NewWithWatch(w.cluster.Config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	w.git = gitserver.New(filepath.Join(w.dir, "git"))
	if err := errors.Join(w.git.Start(), w.git.CreateRepository(repository)); err != nil {
		return err
	}
	install := exec.CommandContext(ctx, "bin/holdfast", "install", "--crds-only")
	install.Env = append(os.Environ(), "KUBECONFIG="+w.cluster.Kubeconfig)
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("install the CRDs: %w: %s", err, out)
	}
	return w.create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
}

func (w *world) create(ctx context.Context, obj client.Object) error {
	if err := w.kube.Create(ctx, obj); err != nil {
		return fmt.Errorf("create %s: %w", obj.GetName(), err)
	}
	return nil
}

// close ends everything and removes what was written.
func (w *world) close() error {
	if w.controller != nil {
		w.controller.stop()
	}
	var problems []error
	if w.git != nil {
		problems = append(problems, w.git.Close())
	}
	if w.cluster != nil {
		problems = append(problems, w.cluster.Stop())
	}
	return errors.Join(append(problems, os.RemoveAll(w.dir))...)
}

// push commits the next version of everything.
func (w *world) push() (err error) {
	w.version++
	w.revision, err = w.git.CommitTree(repository, "main", tree(w.settings, w.fleet+len(extra), w.version), fmt.Sprint("version ", w.version))
	return err
}

// long is an interval, and a timeout, that no phase lasts for.
var long = metav1.Duration{Duration: 10 * time.Hour}

func (w *world) source() *sourcev1.GitRepository {
	return &sourcev1.GitRepository{
		ObjectMeta: metav1.ObjectMeta{Name: repository, Namespace: namespace},
		Spec:       sourcev1.GitRepositorySpec{URL: w.git.URL(repository), Interval: long, Reference: &sourcev1.GitRepositoryRef{Branch: "main"}},
	}
}

func (w *world) kustomization(name, path string) *v1.Kustomization {
	ks := &v1.Kustomization{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	ks.Spec.SourceRef.Kind, ks.Spec.SourceRef.Name = sourcev1.GitRepositoryKind, repository
	ks.Spec.Path, ks.Spec.TargetNamespace = path, namespace
	ks.Spec.Interval, ks.Spec.Prune, ks.Spec.Wait = long, true, w.pods
	return ks
}

// request asks for a reconciliation of an object.
func (w *world) request(ctx context.Context, obj client.Object, at string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, meta.ReconcileRequestAnnotation, at)
	if err := w.kube.Patch(ctx, obj, client.RawPatch(client.Merge.Type(), []byte(patch))); err != nil {
		return fmt.Errorf("request a reconciliation of %s: %w", obj.GetName(), err)
	}
	return nil
}

// each does something for each Kustomization of the fleet.
func (w *world) each(do func(*v1.Kustomization) error) error {
	for i := 1; i <= w.fleet; i++ {
		if err := do(w.kustomization(appName(i), appPath(i))); err != nil {
			return err
		}
	}
	return nil
}
