package install

import (
	"context"
	"fmt"
	"io"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// accountName is the name of the controller's ServiceAccount.
const accountName = "holdfast"

// Superseded is the ClusterRoleBinding of the profile flux that an earlier installation may have left, and with which the profile
// least would have all rights nevertheless. Its namespace is that of the account; nil when there is nothing to take back.
func Superseded(o Options) *client.ObjectKey {
	o, err := o.normalize()
	if err != nil || o.CRDsOnly || o.Profile != ProfileLeast {
		return nil
	}
	return &client.ObjectKey{Namespace: o.Namespace, Name: "holdfast-reconciler-" + o.Namespace}
}

// SupersededNote says in comments of YAML what Export can't do.
func SupersededNote(o Options) string {
	binding := Superseded(o)
	if binding == nil {
		return ""
	}
	return fmt.Sprintf("# An earlier installation with the profile flux may have left ClusterRoleBinding/%[1]s, which gives the controller all rights.\n"+
		"# These manifests don't take it back. Delete it: kubectl delete clusterrolebinding %[1]s --ignore-not-found\n", binding.Name)
}

// takeBack deletes the binding if it gives its rights to the controller's account alone. What someone has made of it otherwise is left,
// and is an error: the rights that were asked for are not those that the controller has.
func takeBack(ctx context.Context, c client.Client, key client.ObjectKey, out io.Writer) error {
	binding := &rbacv1.ClusterRoleBinding{}
	err := c.Get(ctx, client.ObjectKey{Name: key.Name}, binding)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read ClusterRoleBinding/%s, which the profile %s may have left: %w", key.Name, ProfileFlux, err)
	}
	own := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: key.Namespace, Name: accountName}
	if !slices.Contains(binding.Subjects, own) {
		return nil
	}
	if len(binding.Subjects) > 1 {
		return fmt.Errorf("ClusterRoleBinding/%s is left by the profile %s and binds others beside ServiceAccount/%s/%s: "+
			"it is not deleted; take that account out of it, or delete it", key.Name, ProfileFlux, key.Namespace, accountName)
	}
	err = c.Delete(ctx, binding, client.Preconditions{UID: &binding.UID, ResourceVersion: ptr.To(binding.ResourceVersion)})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete ClusterRoleBinding/%s, which the profile %s has left: %w", key.Name, ProfileFlux, err)
	}
	if _, err := fmt.Fprintf(out, "ClusterRoleBinding/%s deleted: it gave the controller all rights (profile %s)\n", key.Name, ProfileFlux); err != nil {
		return fmt.Errorf("report ClusterRoleBinding/%s: %w", key.Name, err)
	}
	return nil
}
