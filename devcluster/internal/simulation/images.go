package simulation

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Images is the simulated image store: every image can be pulled at once,
// except those tagged missing. It is safe for concurrent use.
type Images struct {
	mu     sync.Mutex
	pulled map[string]*runtimeapi.Image
}

var _ internalapi.ImageManagerService = (*Images)(nil)

// NewImages returns an empty store.
func NewImages() *Images {
	return &Images{pulled: map[string]*runtimeapi.Image{}}
}

// PullImage stores the image, unless its tag says that it is missing.
func (i *Images) PullImage(_ context.Context, image *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig, _ *runtimeapi.PodSandboxConfig) (string, error) {
	name := image.GetImage()
	if imageTag(name) == tagMissing {
		return "", status.Errorf(codes.NotFound, "failed to pull and unpack image %q: failed to resolve reference %q: %s: not found", name, name, name)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pulled[name] = &runtimeapi.Image{Id: name, Spec: image, RepoTags: []string{name}, Size: 1 << 20}
	return name, nil
}

// ListImages lists the images pulled, or the one the filter names.
func (i *Images) ListImages(_ context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	wanted := filter.GetImage().GetImage()
	list := make([]*runtimeapi.Image, 0, len(i.pulled))
	for name, image := range i.pulled {
		if wanted == "" || wanted == name {
			list = append(list, image)
		}
	}
	return list, nil
}

// ImageStatus describes an image; one that was not pulled has no description.
func (i *Images) ImageStatus(_ context.Context, image *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return &runtimeapi.ImageStatusResponse{Image: i.pulled[image.GetImage()]}, nil
}

// RemoveImage forgets an image.
func (i *Images) RemoveImage(_ context.Context, image *runtimeapi.ImageSpec) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.pulled, image.GetImage())
	return nil
}

// ImageFsInfo reports one file system, the kubelet insists on it.
func (*Images) ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	usage := []*runtimeapi.FilesystemUsage{{
		FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: "/"},
		UsedBytes:  &runtimeapi.UInt64Value{},
		InodesUsed: &runtimeapi.UInt64Value{},
	}}
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: usage, ContainerFilesystems: usage}, nil
}

// Close has nothing to close.
func (*Images) Close(context.Context) error { return nil }
