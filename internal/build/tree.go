package build

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"

	securefs "github.com/fluxcd/pkg/kustomize/filesys"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
)

// tree is what the kustomization files of a build say before it runs.
type tree struct {
	fs   overlay
	root string
	opts Options

	// exclusive: the build may load an OpenAPI schema.
	exclusive bool
	// remote: the build fetches something.
	remote bool
	// files are the files with objects, in the order in which they were found.
	files []string
	// sources are the files that may be encrypted: those of secret generators and of patches.
	sources []source

	seen map[string]bool
}

// readTree follows the kustomization files from dir on.
func readTree(fs overlay, root, dir string, opts Options) (*tree, error) {
	t := &tree{fs: fs, root: root, opts: opts, seen: map[string]bool{}}
	return t, t.directory(dir)
}

// directory reads the kustomization file of a directory. Whatever is wrong with the file itself is left for kustomize
// to report; such a build runs alone, as nothing is known about it.
func (t *tree) directory(dir string) error {
	if t.seen[dir] {
		return nil
	}
	t.seen[dir] = true
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := filepath.Join(dir, name)
		if !t.fs.Exists(file) || t.fs.IsDir(file) {
			continue
		}
		data, err := t.fs.ReadFile(file)
		var k types.Kustomization
		if err != nil || k.Unmarshal(data) != nil {
			t.exclusive = true
			continue
		}
		k.FixKustomization()
		if err := t.kustomization(file, &k); err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) kustomization(file string, k *types.Kustomization) error {
	if len(k.HelmCharts) > 0 || len(k.HelmChartInflationGenerator) > 0 || k.HelmGlobals != nil {
		return &UnsupportedError{File: t.rel(file), What: "helmCharts"}
	}
	if len(k.OpenAPI) > 0 || len(k.Crds) > 0 {
		t.exclusive = true
	}
	for _, text := range inlineTexts(k) {
		if err := t.fs.bounds.aliases(file, []byte(text)); err != nil {
			return err
		}
	}
	for _, path := range leaves(k) {
		if _, err := t.resolve(file, path); err != nil {
			return err
		}
	}
	if err := t.addSources(file, k); err != nil {
		return err
	}
	inline, plugins := split(k.Generators, k.Transformers, k.Validators)
	for _, config := range inline {
		if err := t.plugin(file, []byte(config)); err != nil {
			return err
		}
	}
	if err := t.follow(file, plugins, true); err != nil {
		return err
	}
	return t.follow(file, append(k.Resources, k.Components...), false)
}

// follow goes on to the directories and files that a kustomization file names.
func (t *tree) follow(file string, paths []string, plugins bool) error {
	for _, path := range paths {
		target, err := t.resolve(file, path)
		switch {
		case err != nil || target == "":
		case t.fs.IsDir(target):
			err = t.directory(target)
		case plugins:
			// An unreadable file is reported by kustomize.
			data, _ := t.fs.ReadFile(target)
			err = t.plugin(target, data)
		default:
			t.files = append(t.files, target)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// resolve returns where a reference of a kustomization file leads to, links followed, or "" if that is not known: it is
// remote, or there is nothing there.
func (t *tree) resolve(file, path string) (string, error) {
	if t.isRemote(filepath.Dir(file), path) {
		if t.opts.NoRemoteBases {
			return "", &UnsupportedError{File: t.rel(file), What: "remote base '" + path + "'"}
		}
		// Git would clone from the disk.
		if strings.Contains(strings.ToLower(path), "file://") {
			return "", &OutsideError{File: t.rel(file), Path: path}
		}
		t.remote, t.exclusive = true, true
		return "", nil
	}
	joined := path
	if !filepath.IsAbs(path) {
		joined = filepath.Join(filepath.Dir(file), path)
	}
	dir, name, err := t.fs.CleanedAbs(joined)
	var constraint *securefs.ConstraintError
	if errors.As(err, &constraint) || err != nil && !within(t.root, joined) {
		return "", &OutsideError{File: t.rel(file), Path: path}
	}
	if err != nil && isLink(joined) {
		return "", &ObjectError{File: t.rel(joined), Problem: deadLink}
	}
	if err != nil {
		// Nothing is there. Kustomize says so better than this could.
		t.exclusive = true
		return "", nil
	}
	return dir.Join(name), nil
}

func (t *tree) rel(path string) string { return relative(t.root, path) }

// split separates the configurations of plugins that stand in the file itself from paths. Kustomize tells them apart by
// trying; no path has more than one line or is a flow mapping.
func split(lists ...[]string) (inline, paths []string) {
	for _, list := range lists {
		for _, s := range list {
			if strings.Contains(s, "\n") || strings.HasPrefix(s, "{") {
				inline = append(inline, s)
			} else {
				paths = append(paths, s)
			}
		}
	}
	return inline, paths
}

// pluginFile matches a field of a plugin's configuration that names a file which kustomize would fetch.
var pluginFile = regexp.MustCompile(`(?mi)(path|paths|files|envs|env|crds)["']?:[\s"'\[-]*([^\s=]*=)?(https?://[^\s"',\]]+)`)

// plugin looks through the configuration of a built-in generator or transformer, whose files are fetched like others.
func (t *tree) plugin(file string, config []byte) error {
	found := pluginFile.FindSubmatch(config)
	if found == nil {
		return nil
	}
	if t.opts.NoRemoteBases {
		return &UnsupportedError{File: t.rel(file), What: "remote file '" + string(found[3]) + "'"}
	}
	t.remote, t.exclusive = true, true
	return nil
}

// inlineTexts are the YAML texts that stand in the file itself.
func inlineTexts(k *types.Kustomization) []string {
	texts, _ := split(k.Generators, k.Transformers, k.Validators)
	//nolint:staticcheck // deprecated fields are still read by kustomize
	for _, p := range append(append([]types.Patch{}, k.Patches...), k.PatchesJson6902...) {
		texts = append(texts, p.Patch)
	}
	for _, p := range k.PatchesStrategicMerge { //nolint:staticcheck // as above
		texts = append(texts, string(p))
	}
	return texts
}

// leaves are the references to single files.
func leaves(k *types.Kustomization) []string {
	paths := append([]string{}, k.Crds...)
	paths = append(paths, k.Configurations...)
	if p := k.OpenAPI["path"]; p != "" {
		paths = append(paths, p)
	}
	for _, g := range k.ConfigMapGenerator {
		paths = append(paths, sources(g.KvPairSources)...)
	}
	for _, g := range k.SecretGenerator {
		paths = append(paths, sources(g.KvPairSources)...)
	}
	//nolint:staticcheck // deprecated fields are still read by kustomize
	for _, p := range append(append([]types.Patch{}, k.Patches...), k.PatchesJson6902...) {
		if p.Path != "" {
			paths = append(paths, p.Path)
		}
	}
	for _, p := range k.PatchesStrategicMerge { //nolint:staticcheck // as above
		_, files := split([]string{string(p)})
		paths = append(paths, files...)
	}
	for _, r := range k.Replacements {
		if r.Path != "" {
			paths = append(paths, r.Path)
		}
	}
	return paths
}

// sources are the files of a generator, without the keys that may stand before them.
func sources(s types.KvPairSources) []string {
	var paths []string
	for _, f := range s.FileSources {
		if _, after, ok := strings.Cut(f, "="); ok {
			f = after
		}
		paths = append(paths, f)
	}
	paths = append(paths, s.EnvSources...)
	if s.EnvSource != "" {
		paths = append(paths, s.EnvSource)
	}
	return paths
}

// remoteBase matches what kustomize takes for a Git repository or a URL: a scheme that it knows, GitHub's host without one,
// or a user before an "@".
var remoteBase = regexp.MustCompile(`(?i)^(git::|gh:|ssh://|https?://|file://|github\.com[:/])|^[^/]*@`)

// remoteFile matches what kustomize fetches over HTTP where it wants a single file.
var remoteFile = regexp.MustCompile(`(?i)^https?://`)

// isRemote tells whether kustomize would fetch the path. A file of that name in the repository comes first, a directory
// does not.
func (t *tree) isRemote(dir, path string) bool {
	if remoteFile.MatchString(path) {
		return true
	}
	local := filepath.Join(dir, path)
	return remoteBase.MatchString(path) && (!t.fs.Exists(local) || t.fs.IsDir(local))
}

// within tells whether a path without links is the root or below it.
func within(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}

// relative names a path as the repository does.
func relative(root, path string) string {
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return filepath.Base(path)
	}
	return rel
}
