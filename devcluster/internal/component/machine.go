package component

import (
	"context"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	cadvisorapiv2 "github.com/google/cadvisor/info/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
)

// The machine that the node pretends to be: so large that no pod of a test
// stays pending for want of resources.
const (
	machineCores        = 1000
	machineMemory       = 4 << 40
	machineDisk         = 4 << 40
	machineInodes       = 1 << 30
	machineEphemeralDir = "4Ti"
)

// machine answers the kubelet's questions about the hardware.
type machine struct {
	cadvisortest.Fake
}

func newMachine() *machine { return &machine{} }

func (*machine) MachineInfo() (*cadvisorapi.MachineInfo, error) {
	return &cadvisorapi.MachineInfo{NumCores: machineCores, MemoryCapacity: machineMemory}, nil
}

func (*machine) VersionInfo() (*cadvisorapi.VersionInfo, error) {
	return &cadvisorapi.VersionInfo{KernelVersion: "simulated", ContainerOsVersion: "devcluster"}, nil
}

func (*machine) ImagesFsInfo(context.Context) (cadvisorapiv2.FsInfo, error)    { return disk(), nil }
func (*machine) RootFsInfo() (cadvisorapiv2.FsInfo, error)                     { return disk(), nil }
func (*machine) ContainerFsInfo(context.Context) (cadvisorapiv2.FsInfo, error) { return disk(), nil }
func (*machine) GetDirFsInfo(string) (cadvisorapiv2.FsInfo, error)             { return disk(), nil }

// disk is an empty disk; the kubelet takes one without a size for broken.
func disk() cadvisorapiv2.FsInfo {
	return cadvisorapiv2.FsInfo{
		Device:     "simulated",
		Mountpoint: "/",
		Capacity:   machineDisk,
		Available:  machineDisk,
		Inodes:     new(uint64(machineInodes)),
		InodesFree: new(uint64(machineInodes)),
	}
}

// nodeResources is kubemark's stub, which has no room for ephemeral storage.
type nodeResources struct {
	cm.ContainerManager
}

func newNodeResources() nodeResources {
	return nodeResources{cm.NewStubContainerManager()}
}

func (nodeResources) GetCapacity(bool) v1.ResourceList {
	return v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse(machineEphemeralDir)}
}
