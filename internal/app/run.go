package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/fluxcd/cli-utils/pkg/flowcontrol"
	"github.com/fluxcd/pkg/runtime/pprof"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/controller/gitrepository"
	"github.com/holdfast-gitops/holdfast/internal/controller/kustomization"
	"github.com/holdfast-gitops/holdfast/internal/notify"
)

// Names that Flux's controllers go by: events, lease and log lines carry them, and other software reads them.
const (
	kustomizeComponent = "kustomize-controller"
	sourceComponent    = "source-controller"
	// leaseName is Flux's too, so that the two never reconcile at the same time in one namespace.
	leaseName = kustomizeComponent + "-leader-election"
)

// Run runs the controllers until the context ends.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	scheme, err := NewScheme()
	if err != nil {
		return err
	}
	if err := preflight(ctx, config, scheme, o); err != nil {
		if ctx.Err() != nil {
			return nil // told to stop before it began
		}
		return err
	}
	options, err := withLock(managerOptions(scheme, o), config, o)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(limit(ctx, config, o), options)
	if err != nil {
		return fmt.Errorf("create the manager: %w%s", err, portHint(err, o))
	}
	if err := setup(mgr, o); err != nil {
		return err
	}
	mgr.GetLogger().Info("starting manager")
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the manager: %w%s", err, portHint(err, o))
	}
	return nil
}

// portHint names the flag of an address that something else listens on.
func portHint(err error, o Options) string {
	var listen *net.OpError
	if !errors.As(err, &listen) || !errors.Is(err, syscall.EADDRINUSE) || listen.Addr == nil {
		return ""
	}
	_, taken, splitErr := net.SplitHostPort(listen.Addr.String())
	if splitErr != nil {
		return ""
	}
	for flag, address := range map[string]string{"--metrics-addr": o.MetricsAddr, "--health-addr": o.HealthAddr} {
		if _, port, err := net.SplitHostPort(address); err == nil && port == taken {
			return fmt.Sprintf("; set %s to a free address, or to 0 to turn it off", flag)
		}
	}
	return ""
}

// limit sets client-side rate limits only where the API server doesn't share out its capacity itself.
func limit(ctx context.Context, config *rest.Config, o Options) *rest.Config {
	limited := rest.CopyConfig(config)
	limited.QPS, limited.Burst = -1, -1
	if fair, err := flowcontrol.IsEnabled(ctx, config); err != nil || !fair {
		// Not knowing is treated as no: the flags then bound the load.
		limited.QPS, limited.Burst = o.KubeAPIQPS, o.KubeAPIBurst
	}
	return limited
}

func managerOptions(scheme *runtime.Scheme, o Options) ctrl.Options {
	options := ctrl.Options{
		Scheme:                        scheme,
		Logger:                        ctrl.Log,
		HealthProbeBindAddress:        o.HealthAddr,
		LeaderElection:                o.LeaderElection.Enable,
		LeaderElectionID:              o.leaseID(),
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: o.LeaderElection.ReleaseOnCancel,
		LeaseDuration:                 &o.LeaderElection.LeaseDuration,
		RenewDeadline:                 &o.LeaderElection.RenewDeadline,
		RetryPeriod:                   &o.LeaderElection.RetryPeriod,
		Metrics: metricsserver.Options{
			BindAddress:   o.MetricsAddr,
			ExtraHandlers: pprof.GetHandlers(),
		},
		// Most Secrets and ConfigMaps of a cluster are none of our business, and decisions need fresh ones.
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}},
		}},
		Controller: ctrlconfig.Controller{
			RecoverPanic:       ptr.To(true),
			SkipNameValidation: ptr.To(o.SkipNameValidation),
		},
	}
	options.Cache.ByObject = map[client.Object]cache.ByObject{}
	if selector := o.Kustomization.WatchConfigs; selector != nil {
		options.Cache.ByObject[&corev1.ConfigMap{}] = cache.ByObject{Label: selector}
		options.Cache.ByObject[&corev1.Secret{}] = cache.ByObject{Label: selector}
	}
	if selector := o.Kustomization.Shard; selector != nil {
		// Triggers only: dependencies, and the siblings that a deletion looks at, are read from the API server. Sources are not
		// filtered, since a Kustomization may follow one of another shard.
		options.Cache.ByObject[&v1.Kustomization{}] = cache.ByObject{Label: selector}
	}
	if !o.WatchAllNamespaces {
		options.Cache.DefaultNamespaces = map[string]cache.Config{o.Namespace: {}}
	}
	return options
}

// setup adds probes and controllers to the manager.
func setup(mgr ctrl.Manager, o Options) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add the readiness check: %w", err)
	}
	tokens, err := newTokens(o.Tokens)
	if err != nil {
		return err
	}
	o.Kustomization.Tokens, o.Source.Tokens = tokens, tokens
	if o.runs(ControllerSource) {
		recorder, err := notify.New(mgr, o.EventsAddr, sourceComponent)
		if err != nil {
			return usageErrorf("--events-addr %q can't be used: %w", o.EventsAddr, err)
		}
		o.Source.Recorder = recorder
		if err := gitrepository.Setup(mgr, o.Source); err != nil {
			return fmt.Errorf("set up the GitRepository controller: %w", err)
		}
	}
	if o.runs(ControllerKustomization) {
		recorder, err := notify.New(mgr, o.EventsAddr, kustomizeComponent)
		if err != nil {
			return usageErrorf("--events-addr %q can't be used: %w", o.EventsAddr, err)
		}
		o.Kustomization.Recorder = recorder
		o.Kustomization.Rivals, o.Kustomization.RivalsIn = o.withheld()
		if err := kustomization.Setup(mgr, o.Kustomization); err != nil {
			return fmt.Errorf("set up the Kustomization controller: %w", err)
		}
	}
	return nil
}
