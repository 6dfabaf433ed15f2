// Package target finds where the objects of a Kustomization are and with whose rights they are worked on: on the cluster of the
// controller or on another one, as the controller or as a ServiceAccount.
//
// A target is the only way to managed objects. Where a Kustomization names an account or a cluster, nothing here ever falls
// back to the controller's own rights: without a target there are no clients at all.
package target

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/observe"
)

// Target is a cluster, and the rights of whoever works on it.
type Target struct {
	// Key names cluster and rights. Whatever is remembered of objects is remembered for one key only.
	Key string
	// Remote is true for another cluster than that of the controller: nothing on it is watched.
	Remote bool
	// Account is the ServiceAccount that is impersonated; empty for none.
	Account types.NamespacedName
	// Executor and Observer write and read the managed objects.
	Executor *execute.Executor
	Observer *observe.Observer
	// Users reads who uses them: with the controller's rights on its own cluster, with those of the kubeconfig on another.
	// An account need not see everything that may use what it deletes.
	Users *observe.Observer
	// Mapper finds the APIs of the cluster.
	Mapper meta.RESTMapper

	// accounts reads ServiceAccounts of the cluster.
	accounts client.Reader
}

// Impersonates tells whether an account is impersonated.
func (t *Target) Impersonates() bool { return t.Account.Name != "" }

// Only is the target of every Kustomization, in a world of one cluster and one account.
type Only struct{ *Target }

// Of returns the target.
func (o Only) Of(context.Context, *v1.Kustomization) (*Target, error) { return o.Target, nil }

// User is the name under which the API server knows an account.
func User(account types.NamespacedName) string {
	return "system:serviceaccount:" + account.Namespace + ":" + account.Name
}

// IsAccountMissing tells whether the account does not exist. An answer that is no answer is an error.
func (t *Target) IsAccountMissing(ctx context.Context) (bool, error) {
	if !t.Impersonates() {
		return false, nil
	}
	account := &metav1.PartialObjectMetadata{}
	account.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	err := t.accounts.Get(ctx, t.Account, account)
	switch {
	case observe.IsAbsent(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read ServiceAccount/%s: %w", t.Account, err)
	}
	return false, nil
}
