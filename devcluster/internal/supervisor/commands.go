package supervisor

import (
	"strconv"

	"github.com/holdfast-gitops/holdfast/devcluster/internal/contract"
)

// Addresses of Services. A range of /24 is full after 254 of them.
const (
	serviceRange = "10.96.0.0/16"
	serviceIP    = "10.96.0.1"
	podRange     = "10.244.0.0/16"
)

// maxPods is as many as no test on one machine is going to reach.
const maxPods = 5000

func etcdArgs(l layout) []string {
	return []string{"--data-dir", l.etcd()}
}

func apiServerArgs(l layout, etcd string) []string {
	return []string{
		"--etcd-servers=http://" + etcd,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		// Endpoints must not name a loopback address, so it can't publish its own.
		"--endpoint-reconciler-type=none",
		"--cert-dir=" + l.path("pki"),
		"--tls-cert-file=" + l.pki(fileServing),
		"--tls-private-key-file=" + l.pki(fileServingKey),
		"--client-ca-file=" + l.pki(fileCA),
		"--token-auth-file=" + l.pki(fileTokens),
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + l.pki(fileAccountKey),
		"--service-account-signing-key-file=" + l.pki(fileAccountKey),
		"--service-cluster-ip-range=" + serviceRange,
		"--allow-privileged=true",
		"--profiling=false",
	}
}

func controllerManagerArgs(l layout) []string {
	config := l.config(contract.ControllerManager)
	return []string{
		"--kubeconfig=" + config,
		"--secure-port=0",
		"--leader-elect=false",
		"--service-account-private-key-file=" + l.pki(fileAccountKey),
		"--root-ca-file=" + l.pki(fileCA),
		"--cluster-signing-cert-file=" + l.pki(fileCA),
		"--cluster-signing-key-file=" + l.pki(fileCAKey),
		"--service-cluster-ip-range=" + serviceRange,
		"--cluster-cidr=" + podRange,
		// Fast where a test would wait for it.
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--node-monitor-period=2s",
		"--horizontal-pod-autoscaler-sync-period=5s",
		"--pvclaimbinder-sync-period=5s",
		"--resource-quota-sync-period=10s",
		"--namespace-sync-period=30s",
		"--flex-volume-plugin-dir=" + l.path("tmp"),
	}
}

func schedulerArgs(l layout) []string {
	return []string{
		"--kubeconfig=" + l.config(contract.Scheduler),
		"--secure-port=0",
		"--leader-elect=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}
}

func kubeletArgs(l layout) []string {
	return []string{
		"--kubeconfig", l.config(contract.Kubelet),
		"--root-dir", l.kubelet(),
		"--node-name", nodeName,
		"--max-pods", strconv.Itoa(maxPods),
	}
}
