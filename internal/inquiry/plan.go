package inquiry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/artifact"
	"github.com/holdfast-gitops/holdfast/internal/controller/gitrepository"
	"github.com/holdfast-gitops/holdfast/internal/controller/kustomization"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// PlanQuestion says what a plan is about.
type PlanQuestion struct {
	Namespace, Name string
	// Path is a directory on this machine that stands in for spec.path.
	Path string
	// Revision is another revision of the source.
	Revision string
	// File holds the Kustomization; Name may be empty where it holds only one.
	File string
	// Options are those that the controller runs with.
	Options app.Options
}

// Plan foresees what the controller would do with a Kustomization.
func (q *Inquirer) Plan(ctx context.Context, question PlanQuestion) (report.Plan, error) {
	proposal, unseen, err := q.proposal(ctx, question)
	if err != nil {
		return report.Plan{}, err
	}
	previewer, err := app.NewPreviewer(q.config, q.mapper, question.Options)
	if err != nil {
		return report.Plan{}, err
	}
	facts, err := previewer.Preview(ctx, proposal)
	if err != nil {
		return report.Plan{}, unforeseen(proposal.Kustomization, err)
	}
	facts.Unseen = append(facts.Unseen, unseen...)
	return report.PlanOf(facts), nil
}

// unforeseen says what to do about a plan that could not be made.
func unforeseen(ks *v1.Kustomization, err error) error {
	what := fmt.Sprintf("plan %s/%s", ks.Namespace, ks.Name)
	switch {
	case strings.Contains(err.Error(), "artifact"):
		return &app.Error{Code: app.ExitUnavailable, Err: fmt.Errorf("%s: %w; what the source offers is fetched from its controller, through the API server "+
			"if need be (the right to get services/proxy); without that give --path with a checkout, or --revision to read Git from here", what, err)}
	case apierrors.IsForbidden(err):
		return &app.Error{Code: app.ExitUnavailable, Err: fmt.Errorf("%s: %w; the right is missing", what, err)}
	}
	return &app.Error{Code: exitFailed, Err: fmt.Errorf("%s: %w", what, err)}
}

// proposal puts together what is looked at.
func (q *Inquirer) proposal(ctx context.Context, question PlanQuestion) (p kustomization.Proposal, unseen []string, err error) {
	if question.File != "" {
		p.Kustomization, unseen, err = q.proposed(ctx, question)
	} else {
		p.Kustomization, err = q.kustomization(ctx, question.Namespace, question.Name)
	}
	if err != nil {
		return p, nil, err
	}
	p.Transport = proxied{config: q.config}
	switch {
	case question.Path != "":
		return q.localProposal(ctx, p, question.Path, unseen)
	case question.Revision != "":
		return q.revisionProposal(ctx, p, question.Revision, unseen)
	}
	return p, unseen, nil
}

// localProposal takes the manifests from a directory.
func (q *Inquirer) localProposal(ctx context.Context, p kustomization.Proposal, dir string, unseen []string) (kustomization.Proposal, []string, error) {
	root, path, err := localPlace(dir, p.Kustomization.Spec.Path)
	if err != nil {
		return p, nil, usagef("--path %s: %w", dir, err)
	}
	p.Kustomization = p.Kustomization.DeepCopy()
	p.Kustomization.Spec.Path = path
	local := artifact.Local{Dir: root}
	source, err := q.sourceRepository(ctx, p.Kustomization)
	if err == nil {
		local.Ignore = source.Spec.Ignore
	} else {
		unseen = append(unseen, "what the source leaves out of its artifact: "+err.Error())
	}
	p.Manifests, p.Revision = local, dir
	return p, unseen, nil
}

// localPlace finds the root of what would be the artifact, and the path in it: the checkout that a directory is in, or what is above it
// if its path ends as spec.path does, or else the directory itself.
func localPlace(dir, specPath string) (root, path string, err error) {
	absolute, err := filepath.Abs(dir)
	if err == nil {
		absolute, err = filepath.EvalSymlinks(absolute)
	}
	if err != nil {
		return "", "", err
	}
	if info, err := os.Stat(absolute); err != nil || !info.IsDir() {
		return "", "", errors.New("it is not a directory")
	}
	for at := absolute; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			path, err := filepath.Rel(at, absolute)
			return at, "./" + filepath.ToSlash(path), err
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if inner := strings.Trim(filepath.ToSlash(filepath.Clean("/"+specPath)), "/"); inner != "" {
		if before, ok := strings.CutSuffix(filepath.ToSlash(absolute), "/"+inner); ok && before != "" {
			return filepath.FromSlash(before), "./" + inner, nil
		}
	}
	return absolute, "./", nil
}

// revisionProposal reads another revision from Git.
func (q *Inquirer) revisionProposal(ctx context.Context, p kustomization.Proposal, revision string, unseen []string) (kustomization.Proposal, []string, error) {
	source, err := q.sourceRepository(ctx, p.Kustomization)
	if err != nil {
		return p, nil, &app.Error{Code: app.ExitUnavailable, Err: fmt.Errorf("read another revision of the source: %w; check it out and give --path", err)}
	}
	name, files, err := gitrepository.CheckOut(ctx, q.client, source, revision)
	if err != nil {
		return p, nil, &app.Error{Code: app.ExitUnavailable, Err: fmt.Errorf("read revision %s of GitRepository %s/%s: %w; or check it out and give --path",
			revision, source.Namespace, source.Name, err)}
	}
	p.Manifests, p.Revision = files, name
	return p, unseen, nil
}

// sourceRepository reads the source of a Kustomization, which has to be a GitRepository.
func (q *Inquirer) sourceRepository(ctx context.Context, ks *v1.Kustomization) (*sourcev1.GitRepository, error) {
	key, isGit := sourceOf(ks)
	if !isGit {
		return nil, fmt.Errorf("%s %s is not a GitRepository", ks.Spec.SourceRef.Kind, ks.Spec.SourceRef.Name)
	}
	source := &sourcev1.GitRepository{}
	if err := q.reader.Get(ctx, key, source); err != nil {
		return nil, fmt.Errorf("get GitRepository %s: %w", key, err)
	}
	return source, nil
}

// proposed reads a Kustomization from a file, as the API server would store it, with the status of the one that it replaces.
func (q *Inquirer) proposed(ctx context.Context, question PlanQuestion) (*v1.Kustomization, []string, error) {
	ks, err := readKustomization(question.File, question.Name)
	if err != nil {
		return nil, nil, usagef("--file %s: %w", question.File, err)
	}
	if ks.Namespace == "" {
		ks.Namespace = question.Namespace
	}
	var unseen []string
	stored := ks.DeepCopy()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(stored)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", question.File, err)
	}
	delete(content, "status")
	obj := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(obj.Object, "metadata", "creationTimestamp")
	err = q.client.Patch(ctx, obj, client.Apply, client.FieldOwner(v1.ApplyManager), client.ForceOwnership, client.DryRunAll) //nolint:staticcheck // of an unstructured object
	switch {
	case err == nil:
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, stored)
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		unseen, err = append(unseen, "what the API server makes of the Kustomization in the file: "+err.Error()), nil
	}
	if err != nil {
		return nil, nil, usagef("--file %s: the API server refuses it: %w", question.File, err)
	}
	live := &v1.Kustomization{}
	switch err := q.reader.Get(ctx, client.ObjectKeyFromObject(ks), live); {
	case err == nil:
		stored.UID, stored.ResourceVersion, stored.Status = live.UID, live.ResourceVersion, live.Status
	case apierrors.IsNotFound(err):
		stored.UID, stored.Status = "", v1.KustomizationStatus{}
	default:
		return nil, nil, failed("get Kustomization "+ks.Namespace+"/"+ks.Name, kustomizationResource, err)
	}
	return stored, unseen, nil
}

// readKustomization reads the one Kustomization of a file that has a name, or the only one.
func readKustomization(file, name string) (*v1.Kustomization, error) {
	f, err := os.Open(file) //nolint:gosec // the person's own
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var found []*v1.Kustomization
	decoder := utilyaml.NewYAMLOrJSONDecoder(f, 4096)
	for {
		ks := &v1.Kustomization{}
		err := decoder.Decode(ks)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		gvk := ks.GroupVersionKind()
		if gvk.Kind == v1.KustomizationKind && gvk.Group == v1.GroupVersion.Group && (name == "" || ks.Name == name) {
			found = append(found, ks)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("it holds no Kustomization %s of %s", name, v1.GroupVersion.Group)
	}
	return nil, fmt.Errorf("it holds %d Kustomizations: give a NAME", len(found))
}

// proxied fetches artifacts as the controller does, or through the API server where their host is a Service of the cluster that can't be
// reached from here.
type proxied struct{ config *rest.Config }

// serviceHost is the host of a Service, as sources write it into the URL of an artifact.
var serviceHost = regexp.MustCompile(`^([a-z0-9-]+)\.([a-z0-9-]+)\.svc(\.[a-z0-9.-]+)?$`)

// RoundTrip sends a request.
func (p proxied) RoundTrip(r *http.Request) (*http.Response, error) {
	service := serviceHost.FindStringSubmatch(strings.TrimSuffix(r.URL.Hostname(), "."))
	if service == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	transport, err := rest.TransportFor(p.config)
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(p.config)
	if err != nil {
		return nil, err
	}
	port := r.URL.Port()
	if port == "" {
		port = "80"
	}
	sent := r.Clone(r.Context())
	sent.Host, sent.URL.Scheme, sent.URL.Host = "", server.Scheme, server.Host
	sent.URL.Path = strings.TrimSuffix(server.Path, "/") + fmt.Sprintf("/api/v1/namespaces/%s/services/%s:%s/proxy", service[2], service[1], port) + r.URL.Path
	return transport.RoundTrip(sent)
}
