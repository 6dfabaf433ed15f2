package build

import (
	"errors"
	"path/filepath"
	"slices"

	securefs "github.com/fluxcd/pkg/kustomize/filesys"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// overlay is the artifact with files put over it: the kustomization file that was made from the spec, and what was decrypted.
// It can't be written to.
type overlay struct {
	filesys.FileSystem
	file string
	data []byte
	// decrypted are the plain contents of encrypted files, by paths without links.
	decrypted map[string][]byte
	bounds    *bounds
}

// artifactFS opens the artifact such that no path or link leads out of it. Only a build with remote bases gets to see
// the directories into which kustomize clones them.
func artifactFS(root string, remote bool) (filesys.FileSystem, error) {
	if remote {
		return securefs.MakeFsOnDiskSecureBuild(root)
	}
	return securefs.MakeFsOnDiskSecure(root)
}

var errReadOnly = errors.New("artifact is read-only")

func (o overlay) Exists(path string) bool { return path == o.file || o.FileSystem.Exists(path) }

func (o overlay) IsDir(path string) bool { return path != o.file && o.FileSystem.IsDir(path) }

func (o overlay) ReadFile(path string) ([]byte, error) {
	if err := o.bounds.size(path); err != nil {
		return nil, err
	}
	data, err := o.readFile(path)
	if err != nil {
		return nil, err
	}
	return data, o.bounds.content(path, data)
}

func (o overlay) readFile(path string) ([]byte, error) {
	if path == o.file {
		return slices.Clone(o.data), nil
	}
	if len(o.decrypted) > 0 {
		if dir, name, err := o.FileSystem.CleanedAbs(path); err == nil {
			if plain, ok := o.decrypted[dir.Join(name)]; ok {
				return slices.Clone(plain), nil
			}
		}
	}
	return o.FileSystem.ReadFile(path)
}

func (o overlay) CleanedAbs(path string) (filesys.ConfirmedDir, string, error) {
	if path == o.file {
		return filesys.ConfirmedDir(filepath.Dir(path)), filepath.Base(path), nil
	}
	return o.FileSystem.CleanedAbs(path)
}

func (o overlay) Create(string) (filesys.File, error) { return nil, errReadOnly }
func (o overlay) Mkdir(string) error                  { return errReadOnly }
func (o overlay) MkdirAll(string) error               { return errReadOnly }
func (o overlay) WriteFile(string, []byte) error      { return errReadOnly }
