package build

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fluxcd/pkg/kustomize"
	securefs "github.com/fluxcd/pkg/kustomize/filesys"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Options are the settings of the controller that shape a build.
type Options struct {
	// NoRemoteBases refuses resources that are not in the artifact, before anything is fetched. Without it kustomize runs
	// git, and what a remote base refers to in turn is not looked at before: a process that runs builds of others
	// should set GIT_ALLOW_PROTOCOL to AllowedGitProtocols, so that git clones nothing from its disk.
	NoRemoteBases bool
	// Remote takes over the rendering of a build that fetches something, such as by an Isolation. Without it such a build waits
	// for the network in this process, without a limit, and all others wait with it.
	Remote func(decrypted map[string][]byte) (Rendered, error)
	// Decrypter opens what is encrypted, when it is not nil.
	Decrypter Decrypter
	// Substitution is done when it is not nil.
	Substitution *Substitution
	// Decrypted are the plain contents of encrypted files, by path, for a Remote: who renders for others gets no keys.
	Decrypted map[string][]byte
}

// Decrypter opens what is encrypted; *decrypt.Decrypter does.
type Decrypter interface {
	// Source returns the plain content of a file that a generator or a patch names, nil if it is not encrypted. The name tells its
	// format; env says that it holds variables.
	Source(name string, env bool, data []byte) ([]byte, error)
	// Object decrypts an object in place, if it is encrypted.
	Object(u *unstructured.Unstructured) error
}

// Emptiness says why a build has no objects, which decides whether everything may be pruned.
type Emptiness string

const (
	// NotEmpty means: there are objects.
	NotEmpty Emptiness = ""
	// EmptyExplicit means: the kustomization file at the path says "resources: []". Its author wants nothing to be there.
	EmptyExplicit Emptiness = "Explicit"
	// EmptyUnexplained means: nothing was found, such as in a directory without manifests. It may as well be a mistake.
	EmptyUnexplained Emptiness = "Unexplained"
)

// Result is what a build renders.
type Result struct {
	// Objects in the order of the build, which is the same for the same input.
	Objects []*unstructured.Unstructured
	// Digest over the objects, as sha256:<hex>; see Digest.
	Digest string
	// Empty says why there are no objects.
	Empty Emptiness
	// Remote says that something was fetched, so that the same artifact may render to something else next time.
	Remote bool
	// InPlace are objects with a hash in their name that variables change under that name.
	InPlace []object.ID
	// Decrypted are the objects that were encrypted as a whole.
	Decrypted []object.ID
	// SecretsAnywhere says that values that are secret may be in any object: out of an encrypted file that a generator or a patch names,
	// or out of a variable.
	SecretsAnywhere bool
}

// Rendered is what kustomize makes of an artifact, before variables are replaced.
type Rendered struct {
	// Objects in the order of the build.
	Objects []*unstructured.Unstructured
	// Empty says why there are no objects.
	Empty Emptiness
	// Remote says that something was fetched.
	Remote bool
}

// Build renders the Kustomization from the artifact that is unpacked at root. Nothing is written there, and nothing
// outside is read.
//
// Errors are *PathNotFound, *OutsideError, *UnsupportedError, *ObjectError, *DuplicateError, *DecryptionError, *SubstitutionError, or
// *Error for whatever else kustomize has to say. No text names a path of the disk.
func Build(root string, ks *v1.Kustomization, opts Options) (Result, error) {
	b, err := newBuilder(root, ks, opts)
	if err != nil {
		return Result{}, err
	}
	result, err := b.run()
	if err != nil {
		return Result{}, b.explained(err)
	}
	return result, nil
}

// Render does the first part of a build, for an Options.Remote.
func Render(root string, ks *v1.Kustomization, opts Options) (Rendered, error) {
	b, err := newBuilder(root, ks, opts)
	if err != nil {
		return Rendered{}, err
	}
	rendered, err := b.render()
	if err != nil {
		return Rendered{}, b.explained(err)
	}
	return rendered, nil
}

func newBuilder(root string, ks *v1.Kustomization, opts Options) (*builder, error) {
	resolved, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, scrubbed("open artifact: ", err, root)
	}
	dir, err := directory(resolved, ks.Spec.Path)
	if err != nil {
		return nil, err
	}
	return &builder{root: resolved, dir: dir, ks: ks, opts: opts}, nil
}

// directory returns where the spec's path is in the artifact. As in Flux a leading slash means the artifact's root.
func directory(root, path string) (string, error) {
	local := filepath.Clean("./" + path)
	if !filepath.IsLocal(local) {
		return "", &OutsideError{Path: path}
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(root, local))
	if err != nil {
		return "", &PathNotFound{Path: path, Problem: "no such file or directory"}
	}
	if !within(root, dir) {
		return "", &OutsideError{Path: path}
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", &PathNotFound{Path: path, Problem: "not a directory"}
	}
	return dir, nil
}

// builder is one build.
type builder struct {
	root, dir string
	ks        *v1.Kustomization
	opts      Options
	tree      *tree
	// opened is true when a file was encrypted.
	opened bool
}

func (b *builder) run() (Result, error) {
	rendered, err := b.render()
	if err != nil {
		return Result{}, err
	}
	objects := rendered.Objects
	decrypted, err := b.decryptObjects(objects)
	if err != nil {
		return Result{}, err
	}
	inPlace, err := b.opts.Substitution.apply(objects)
	if err != nil {
		return Result{}, err
	}
	setCommonMetadata(objects, b.ks.Spec.CommonMetadata)
	if err := check(objects); err != nil {
		return Result{}, err
	}
	digest, err := Digest(objects)
	return Result{Objects: objects, Digest: digest, Empty: rendered.Empty, Remote: rendered.Remote, InPlace: inPlace, Decrypted: decrypted,
		SecretsAnywhere: b.opened || b.opts.Substitution.secret()}, err
}

// render is the part of the build that kustomize does.
func (b *builder) render() (Rendered, error) {
	files, generated, err := b.overlay()
	if err != nil {
		return Rendered{}, err
	}
	b.tree, err = readTree(files, b.root, b.dir, b.opts)
	if err == nil {
		err = files.bounds.first
	}
	if err != nil {
		return Rendered{}, err
	}
	if files.decrypted, err = b.decryptSources(files); err != nil {
		return Rendered{}, err
	}
	if b.tree.remote && b.opts.Remote != nil {
		return b.opts.Remote(files.decrypted)
	}
	if b.tree.remote {
		if files.FileSystem, err = artifactFS(b.root, true); err != nil {
			return Rendered{}, scrubbed("open artifact: ", err, b.root)
		}
	}
	rendered := Rendered{Remote: b.tree.remote}
	err = withSchema(b.tree.exclusive, func() (err error) {
		rendered.Objects, err = runKustomize(files, b.dir)
		return err
	})
	if files.bounds.first != nil {
		return Rendered{}, files.bounds.first
	}
	if err != nil {
		return Rendered{}, scrubbed(buildFailed, err, b.root)
	}
	if len(rendered.Objects) == 0 {
		rendered.Empty = b.emptiness(files, generated)
	}
	return rendered, nil
}

// overlay returns the artifact with the kustomization file that the spec asks for, and whether there was none before.
func (b *builder) overlay() (overlay, bool, error) {
	secure, err := artifactFS(b.root, false)
	if err != nil {
		return overlay{}, false, scrubbed("open artifact: ", err, b.root)
	}
	bounds := newBounds(b.root)
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(b.ks)
	if err != nil {
		return overlay{}, false, fmt.Errorf("read spec: %w", err)
	}
	var links []string
	if !hasKustomization(b.dir) {
		// Before the generator looks, which stops at a link out of the artifact without a good word.
		if links, err = linked(b.root, b.dir); err != nil {
			return overlay{}, false, err
		}
		if err := bounds.manifests(b.dir); err != nil {
			return overlay{}, false, err
		}
	}
	var manifest []byte
	var file string
	var action kustomize.Action
	err = guarded(func() (err error) {
		generator := kustomize.NewGenerator(b.root, unstructured.Unstructured{Object: object})
		manifest, file, action, err = generator.GenerateManifest(b.dir)
		return err
	})
	var constraint *securefs.ConstraintError
	if errors.As(err, &constraint) {
		return overlay{}, false, &OutsideError{Path: relative(b.root, constraint.Path)}
	}
	if err != nil {
		return overlay{}, false, scrubbed("", err, b.root)
	}
	if len(links) > 0 {
		if manifest, err = addLinks(manifest, links); err != nil {
			return overlay{}, false, err
		}
	}
	return overlay{FileSystem: secure, file: file, data: manifest, bounds: bounds}, action == kustomize.CreatedAction, nil
}

// addLinks adds to a generated kustomization file what links to directories lead to, which the generator passes over.
func addLinks(manifest []byte, links []string) ([]byte, error) {
	var k types.Kustomization
	if err := yaml.Unmarshal(manifest, &k); err != nil {
		return nil, fmt.Errorf("read generated kustomization: %w", err)
	}
	k.Resources = append(k.Resources, links...)
	if k.Namespace == placeholder {
		k.Namespace = ""
	}
	return yaml.Marshal(k)
}

// placeholder is the namespace by which the generator keeps an empty kustomization file from being refused.
const placeholder = "_placeholder"

// runKustomize runs kustomize with Flux's settings: files may come from anywhere in the file system given, and only built-in
// plugins run.
func runKustomize(files overlay, dir string) ([]*unstructured.Unstructured, error) {
	kustomizer := krusty.MakeKustomizer(&krusty.Options{
		LoadRestrictions: types.LoadRestrictionsNone,
		PluginConfig:     types.DisabledPluginConfig(),
	})
	var rendered resmap.ResMap
	rendered, err := kustomizer.Run(files, dir)
	if err != nil {
		return nil, err
	}
	return objectsOf(rendered)
}

// emptiness says why there is nothing: only a list of resources that is there and empty was meant.
func (b *builder) emptiness(files overlay, generated bool) Emptiness {
	if generated {
		return EmptyUnexplained
	}
	data, err := files.FileSystem.ReadFile(files.file)
	if err != nil {
		return EmptyUnexplained
	}
	var content map[string]any
	if err := yaml.Unmarshal(data, &content); err != nil {
		return EmptyUnexplained
	}
	for key, value := range content {
		if list, ok := value.([]any); ok && len(list) == 0 && strings.EqualFold(key, "resources") {
			return EmptyExplicit
		}
	}
	return EmptyUnexplained
}
