package build

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/holdfast-gitops/holdfast/internal/decrypt"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// DecryptionError says what could not be decrypted. No value and no key is in it.
type DecryptionError struct {
	// What is encrypted: a file of the artifact, or an object.
	What string
	// Err says why.
	Err error
}

// Error has Flux's text, and the file.
func (e *DecryptionError) Error() string { return e.What + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *DecryptionError) Unwrap() error { return e.Err }

// source is a file that a generator or a patch names. It may be encrypted.
type source struct {
	// path has no links in it.
	path string
	// name tells the format: the key under which a generator puts the file, or the path as it is written.
	name string
	env  bool
}

// addSources notes the files of a kustomization file that may be encrypted. Remote ones, and those that are not there, are left to
// kustomize.
func (t *tree) addSources(file string, k *types.Kustomization) error {
	for _, s := range encryptable(k) {
		path, err := t.resolve(file, s.path)
		if err != nil {
			return err
		}
		if s.path = path; path != "" {
			t.sources = append(t.sources, s)
		}
	}
	return nil
}

// encryptable are the files that Flux decrypts before a build, with their paths as they are written.
func encryptable(k *types.Kustomization) []source {
	var found []source
	for _, g := range k.SecretGenerator {
		for _, f := range g.FileSources {
			name, path, keyed := strings.Cut(f, "=")
			if !keyed {
				path = name
			}
			found = append(found, source{path: path, name: name})
		}
		envs := g.EnvSources
		if g.EnvSource != "" {
			envs = append(envs, g.EnvSource)
		}
		for _, f := range envs {
			found = append(found, source{path: f, name: f, env: true})
		}
	}
	for _, p := range k.Patches {
		if p.Path != "" {
			found = append(found, source{path: p.Path, name: p.Path})
		}
	}
	return found
}

// decryptSources returns the plain contents of the encrypted files of the tree, by path. The files stay as they are.
func (b *builder) decryptSources(files overlay) (map[string][]byte, error) {
	if b.opts.Decrypter == nil {
		return b.opts.Decrypted, nil
	}
	decrypted := map[string][]byte{}
	for _, s := range b.tree.sources {
		if _, done := decrypted[s.path]; done {
			continue
		}
		plain, err := b.decryptSource(files, s)
		if err != nil {
			return nil, &DecryptionError{What: "error decrypting sources: " + relative(b.root, s.path), Err: err}
		}
		if plain != nil {
			decrypted[s.path] = plain
			b.opened = true
		}
	}
	return decrypted, nil
}

func (b *builder) decryptSource(files overlay, s source) ([]byte, error) {
	info, err := os.Lstat(s.path)
	if err != nil {
		return nil, fmt.Errorf("read the file: it is not there any more")
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot decrypt irregular file as it has file mode type bits set")
	}
	if info.Size() > decrypt.MaxFile {
		return nil, fmt.Errorf("cannot decrypt file with size (%d bytes) exceeding limit (%d)", info.Size(), decrypt.MaxFile)
	}
	data, err := files.FileSystem.ReadFile(s.path)
	if err != nil {
		return nil, scrubbed("read the file: ", err, b.root)
	}
	return b.opts.Decrypter.Source(s.name, s.env, data)
}

// decryptObjects decrypts the objects of the build in place, and returns those that were encrypted.
func (b *builder) decryptObjects(objects []*unstructured.Unstructured) (decrypted []object.ID, err error) {
	if b.opts.Decrypter == nil {
		return nil, nil
	}
	for _, u := range objects {
		id, apiVersion := object.IDOf(u), u.GetAPIVersion()
		if IsEncrypted(u) {
			decrypted = append(decrypted, id)
		}
		if err := b.opts.Decrypter.Object(u); err != nil {
			return nil, &DecryptionError{What: fmt.Sprintf("decryption failed for '%s/%s'", gvkText(id, apiVersion), id.Name), Err: err}
		}
	}
	return decrypted, nil
}
