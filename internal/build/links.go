package build

import (
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/kustomize/api/konfig"
)

// linked returns what links to directories below dir add to its manifests, relative to dir. Links are followed once:
// directories that a link leads to are searched for manifests, but not for further links to directories, so that links
// which lead to each other come to an end.
func linked(root, dir string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != dir && hasKustomization(path) {
			return filepath.SkipDir
		}
		if entry.Type()&fs.ModeSymlink == 0 {
			return nil
		}
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return &ObjectError{File: relative(root, path), Problem: deadLink}
		}
		if !within(root, target) {
			return &OutsideError{File: relative(root, path), Path: linkText(path)}
		}
		if info, err := os.Stat(target); err != nil || !info.IsDir() {
			// A link to a file is read like a file.
			return nil
		}
		manifests, err := manifestsAt(target)
		for _, m := range manifests {
			found = append(found, "./"+relative(dir, filepath.Join(path, relative(target, m))))
		}
		return err
	})
	if err != nil {
		return nil, pathless(err, root)
	}
	return found, nil
}

// manifestsAt returns the directory itself when it is a kustomization, else its manifests and those below.
func manifestsAt(dir string) ([]string, error) {
	if hasKustomization(dir) {
		return []string{dir}, nil
	}
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != dir && hasKustomization(path) {
			found = append(found, path)
			return filepath.SkipDir
		}
		if entry.Type().IsRegular() && isYAML(path) {
			found = append(found, path)
		}
		return nil
	})
	return found, err
}

// deadLink is what is wrong with a link whose target does not exist, or leads in a circle.
const deadLink = "link leads nowhere"

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

func isYAML(path string) bool {
	ext := filepath.Ext(path)
	return ext == ".yaml" || ext == ".yml"
}

func hasKustomization(dir string) bool {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return true
		}
	}
	return false
}

// linkText is what the link says, which may be relative; it can't fail for a link that was just seen.
func linkText(path string) string {
	text, err := os.Readlink(path)
	if err != nil {
		return filepath.Base(path)
	}
	return text
}
