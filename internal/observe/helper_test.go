package observe_test

import (
	"context"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var cm = object.ID{Kind: "ConfigMap", Namespace: "shop", Name: "app"}

// served is a complete or partial answer of discovery.
type served struct {
	discovery.DiscoveryInterface
	kinds []schema.GroupVersionKind
	err   error
}

func (s *served) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	var lists []*metav1.APIResourceList
	for _, k := range s.kinds {
		lists = append(lists, &metav1.APIResourceList{GroupVersion: k.GroupVersion().String(),
			APIResources: []metav1.APIResource{{Name: strings.ToLower(k.Kind) + "s", Kind: k.Kind}}})
	}
	return nil, lists, s.err
}

// scopes are the scopes of kinds that are cluster-scoped and of those that are not.
var scopes = map[bool]meta.RESTScope{true: meta.RESTScopeRoot, false: meta.RESTScopeNamespace}

func mapperOf(kinds ...schema.GroupVersionKind) meta.RESTMapper {
	var versions []schema.GroupVersion
	for _, k := range kinds {
		versions = append(versions, k.GroupVersion())
	}
	m := meta.NewDefaultRESTMapper(versions)
	for _, k := range kinds {
		m.Add(k, scopes[k == crdKind])
	}
	return m
}

var (
	configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	thing     = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	crdKind   = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
)

// getting returns an observer whose every GET is answered by the function.
func getting(answer func(client.Object) error) *observe.Observer {
	return &observe.Observer{
		Reader: interceptor.NewClient(nil, interceptor.Funcs{
			Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
				obj.SetNamespace(key.Namespace)
				obj.SetName(key.Name)
				return answer(obj)
			},
		}),
		Mapper:    mapperOf(configMap, thing, crdKind),
		Discovery: &served{kinds: []schema.GroupVersionKind{configMap, thing, crdKind}},
	}
}

func failing(err error) *observe.Observer { return getting(func(client.Object) error { return err }) }

var resource = schema.GroupResource{Resource: "configmaps"}

// The faults of an API server that say nothing about whether the object exists.
func faults() map[string]error {
	return map[string]error{
		"forbidden":         apierrors.NewForbidden(resource, "app", errors.New("no right to")),
		"unauthorized":      apierrors.NewUnauthorized("who are you"),
		"too many requests": apierrors.NewTooManyRequests("slow down", 1),
		"internal error":    apierrors.NewInternalError(errors.New("boom")),
		"unavailable":       apierrors.NewServiceUnavailable("etcd is gone"),
		"server timeout":    apierrors.NewServerTimeout(resource, "get", 1),
		"timeout":           context.DeadlineExceeded,
		"cancelled":         context.Canceled,
		"connection":        errors.New("connection refused"),
		"gone":              apierrors.NewResourceExpired("too old"),
	}
}

// generic404 is what a proxy, or an API server that does not know the resource, answers.
func generic404() error {
	return apierrors.NewGenericServerResponse(404, "get", resource, "app", "404 page not found", 0, true)
}

func bare404() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound}}
}
