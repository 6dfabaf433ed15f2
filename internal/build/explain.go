package build

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// explained adds to an error what the manifests tell about it: the file of an object, or the object that kustomize
// stumbled over. Only a failed build pays for reading them again.
func (b *builder) explained(err error) error {
	var objectErr *ObjectError
	if errors.As(err, &objectErr) {
		if objectErr.File == "" {
			objectErr.File = fileOf(b.manifests(), objectErr.ID)
		}
		return err
	}
	var substitution *SubstitutionError
	if errors.As(err, &substitution) {
		substitution.File = fileOf(b.manifests(), substitution.ID)
		return err
	}
	var decryption *DecryptionError
	if errors.As(err, &decryption) {
		return err
	}
	var duplicate *DuplicateError
	if errors.As(err, &duplicate) {
		duplicate.First, duplicate.Second = filesOf(b.manifests(), duplicate)
		return err
	}
	var failed *Error
	if !errors.As(err, &failed) {
		return err
	}
	if found := suspect(b.manifests(), failed); found != nil {
		return found
	}
	return err
}

// manifest is an object in a file, before kustomize changed it.
type manifest struct {
	file   string
	object *unstructured.Unstructured
}

// manifests reads the objects in the files of the build: those that the kustomization files name, or, if it did not get
// that far, all below the path. What can't be decoded is left out.
func (b *builder) manifests() []manifest {
	var files []string
	if b.tree != nil {
		files = b.tree.files
	} else {
		// An unreadable directory has no manifests to explain anything with.
		_ = filepath.WalkDir(b.dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() && isYAML(path) {
				files = append(files, path)
			}
			return nil
		})
	}
	var found []manifest
	for _, file := range files {
		// Files of the tree were resolved within the artifact, and the walk follows no links.
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for _, u := range documents(data) {
			found = append(found, manifest{file: relative(b.root, file), object: u})
		}
	}
	return found
}

// documents decodes the objects of a file, up to the first that can't be.
func documents(data []byte) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := docs.Read()
		if err != nil {
			return objects
		}
		u, err := decode(doc)
		if err != nil || len(u.Object) == 0 {
			continue
		}
		items, err := flatten(u)
		if err == nil {
			objects = append(objects, items...)
		}
	}
}

// suspect looks for the object behind an error of kustomize: one that can't be applied, or one that is there twice.
func suspect(manifests []manifest, cause *Error) error {
	type key struct {
		id         object.ID
		apiVersion string
		dir        string
	}
	first := map[key]string{}
	for _, m := range manifests {
		u, id := m.object, object.IDOf(m.object)
		switch {
		case u.GetAPIVersion() == "" || id.Kind == "" || id.Name == "" && u.GetGenerateName() == "":
			return &ObjectError{ID: id, File: m.file, Problem: undecodable, Err: cause}
		case id.Name == "":
			return &ObjectError{ID: id, File: m.file, Field: "metadata.generateName", Problem: generatedName, Err: cause}
		}
		// An object may be in two bases and become two by a prefix; in one directory it can't.
		k := key{id: id, apiVersion: u.GetAPIVersion(), dir: filepath.Dir(m.file)}
		if other, ok := first[k]; ok && strings.Contains(cause.text, id.Name) {
			return &DuplicateError{ID: id, First: other, Second: m.file, Err: cause}
		}
		first[k] = m.file
	}
	return nil
}

// fileOf returns the file of a rendered object, or "": the file with the object of that kind and name, else with the
// only one of that kind whose name the rendered one contains, as prefixes, suffixes and hashes leave it.
func fileOf(manifests []manifest, id object.ID) string {
	similar := map[string]bool{}
	for _, m := range manifests {
		got := object.IDOf(m.object)
		if got.GroupKind() != id.GroupKind() {
			continue
		}
		if got.Name == id.Name {
			return m.file
		}
		if got.Name != "" && strings.Contains(id.Name, got.Name) {
			similar[m.file] = true
		}
	}
	if len(similar) == 1 {
		for file := range similar {
			return file
		}
	}
	return ""
}

// filesOf returns where the two objects of a duplicate come from, with their API versions kept where they can't be found.
func filesOf(manifests []manifest, d *DuplicateError) (first, second string) {
	var files []string
	for _, m := range manifests {
		id := object.IDOf(m.object)
		if id.GroupKind() == d.ID.GroupKind() && id.Name == d.ID.Name {
			files = append(files, m.file)
		}
	}
	if len(files) != 2 {
		return d.First, d.Second
	}
	return files[0], files[1]
}
