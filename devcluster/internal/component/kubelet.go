package component

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/kubelet"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubemark"

	"github.com/holdfast-gitops/holdfast/devcluster/internal/contract"
	"github.com/holdfast-gitops/holdfast/devcluster/internal/simulation"
)

type kubeletFlags struct {
	kubeconfig string
	rootDir    string
	nodeName   string
	maxPods    int
}

// runKubelet runs kubemark's hollow kubelet with a runtime, probes and a
// machine of our own. It has no server: nothing of a simulated container can
// be looked at, and so it needs no port.
func runKubelet(ctx context.Context, args []string) error {
	f, err := parseKubeletFlags(args)
	if err != nil {
		return err
	}
	refuseNameLookups()
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig of the kubelet: %w", err)
	}
	config.UserAgent = "devcluster-kubelet"
	config.QPS = -1
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create client of the kubelet: %w", err)
	}
	heartbeat, err := clientset.NewForConfig(withTimeout(config, 10*time.Second))
	if err != nil {
		return fmt.Errorf("create heartbeat client of the kubelet: %w", err)
	}
	flags, cfg, err := kubeletConfig(f)
	if err != nil {
		return err
	}
	probes := simulation.NewProbes()
	hollow := kubemark.NewHollowKubelet(flags, cfg, client, heartbeat, newMachine(), simulation.NewImages(),
		simulation.NewRuntime(probes), newNodeResources())
	hollow.KubeletDeps.ProbeManager = probes
	hollow.KubeletDeps.Recorder = eventRecorder(ctx, client, f.nodeName)
	return startKubelet(ctx, f.nodeName, hollow, probes)
}

func parseKubeletFlags(args []string) (kubeletFlags, error) {
	var f kubeletFlags
	flags := flag.NewFlagSet(contract.Kubelet, flag.ContinueOnError)
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the API server")
	flags.StringVar(&f.rootDir, "root-dir", "", "where volumes are kept")
	flags.StringVar(&f.nodeName, "node-name", "", "name of the node")
	flags.IntVar(&f.maxPods, "max-pods", 0, "how many pods the node takes")
	if err := flags.Parse(args); err != nil {
		return f, fmt.Errorf("read flags of the kubelet: %w", err)
	}
	return f, nil
}

// refuseNameLookups keeps the kubelet from asking a name server for the
// address of a node that has none, which can block for seconds per heartbeat
// on a machine without network.
func refuseNameLookups() {
	net.DefaultResolver = &net.Resolver{
		PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("a devcluster asks no name server")
		},
	}
}

func withTimeout(config *rest.Config, timeout time.Duration) *rest.Config {
	c := rest.CopyConfig(config)
	c.Timeout = timeout
	return c
}

// kubeletConfig returns the defaults, changed where they would touch the
// machine, need a port, or make a test wait.
func kubeletConfig(f kubeletFlags) (*options.KubeletFlags, *kubeletconfig.KubeletConfiguration, error) {
	flags := options.NewKubeletFlags()
	flags.RootDirectory = f.rootDir
	flags.HostnameOverride = f.nodeName
	flags.MaxPerPodContainerCount = 2
	cfg, err := options.NewKubeletConfiguration()
	if err != nil {
		return nil, nil, fmt.Errorf("default configuration of the kubelet: %w", err)
	}
	cfg.PodLogsDir = filepath.Join(f.rootDir, "logs")
	cfg.ResolverConfig = ""
	// Nobody answers there; without one, every pod gets a warning.
	cfg.ClusterDNS, cfg.ClusterDomain = []string{"10.96.0.10"}, "cluster.local"
	cfg.EnableServer = false
	cfg.ReadOnlyPort = 0
	cfg.MakeIPTablesUtilChains = false
	cfg.CgroupsPerQOS = false
	cfg.EnforceNodeAllocatable = []string{}
	cfg.EnableControllerAttachDetach = false
	cfg.FailSwapOn = false
	cfg.MaxPods = int32(f.maxPods)
	// Nothing simulated can fill a disk: no eviction, no image collection.
	cfg.EvictionHard = map[string]string{}
	cfg.LocalStorageCapacityIsolation = false
	cfg.ImageGCHighThresholdPercent = 100
	cfg.VolumeStatsAggPeriod = metav1.Duration{Duration: -1}
	cfg.SerializeImagePulls = false
	cfg.RegistryPullQPS = 0
	cfg.SyncFrequency = metav1.Duration{Duration: 5 * time.Second}
	cfg.CrashLoopBackOff.MaxContainerRestartPeriod = &metav1.Duration{Duration: maxRestartPause}
	return flags, cfg, nil
}

// maxRestartPause bounds the pause between restarts of a crashing container:
// five minutes on a real node, which is longer than most tests.
const maxRestartPause = 10 * time.Second

// eventRecorder sends the kubelet's events to the API server. With any recorder
// but the fake one the kubelet reads the kernel's log for processes that ran
// out of memory, and does not start if it can't: then it has to do without
// events.
func eventRecorder(ctx context.Context, client clientset.Interface, node string) record.EventRecorderLogger {
	if kmsg, err := os.Open("/dev/kmsg"); err != nil {
		klog.Warningf("The kubelet sends no events: it would need to read the kernel log: %v", err)
		return &record.FakeRecorder{}
	} else {
		// Only tested; closing what was never written to can't lose anything.
		_ = kmsg.Close()
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: client.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(legacyscheme.Scheme, v1.EventSource{Component: contract.Kubelet, Host: node})
	return simulation.PodEvents{EventRecorderLogger: recorder}
}

// startKubelet does what the kubelet's own command does after its flags are
// read, except for its servers.
func startKubelet(ctx context.Context, node string, hollow *kubemark.HollowKubelet, probes *simulation.Probes) error {
	capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true})
	f, cfg, deps := hollow.KubeletFlags, hollow.KubeletConfiguration, hollow.KubeletDeps
	k, err := kubelet.NewMainKubelet(ctx, cfg, deps, &f.ContainerRuntimeOptions, node, types.NodeName(node), nil,
		cfg.ProviderID, f.CloudProvider, f.CertDirectory, f.RootDirectory, cfg.PodLogsDir,
		f.ImageCredentialProviderConfigPath, f.ImageCredentialProviderBinDir, cfg.RegisterNode, cfg.RegisterWithTaints,
		cfg.AllowedUnsafeSysctls, f.ExperimentalMounterPath, cfg.KernelMemcgNotification,
		f.ExperimentalNodeAllocatableIgnoreEvictionThreshold, f.MinimumGCAge, f.MaxPerPodContainerCount,
		f.MaxContainerCount, f.NodeLabels, cfg.NodeStatusMaxImages, f.SeccompDefault || cfg.SeccompDefault)
	if err != nil {
		return fmt.Errorf("create the kubelet: %w", err)
	}
	probes.Resync = func(namespace, name string, uid types.UID) {
		// The pod has to be the newest one: the kubelet syncs what it is given.
		if pod, found := k.GetPodByName(namespace, name); found && pod.UID == uid {
			k.HandlePodSyncs(ctx, []*v1.Pod{pod})
		}
	}
	k.StartGarbageCollection(ctx)
	k.Run(ctx, simulation.Simulable(ctx, deps.PodConfig.Updates()))
	return errors.New("run the kubelet: it stopped by itself")
}
