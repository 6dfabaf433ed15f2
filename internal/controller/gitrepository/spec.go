package gitrepository

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/source/git"
)

// errNotSupported says that the spec asks for something that can't be done.
var errNotSupported = errors.New("not supported")

// providers are those of the API.
var providers = []string{"", sourcev1.GitProviderGeneric, sourcev1.GitProviderGitHub, sourcev1.GitProviderAzure, sourcev1.GitProviderAWS}

// ofCloud tells whether a cloud gives the credentials.
func ofCloud(spec sourcev1.GitRepositorySpec) bool {
	return spec.Provider == sourcev1.GitProviderAzure || spec.Provider == sourcev1.GitProviderAWS
}

// unsupported lists the fields of the spec that are set and can't be honoured.
func unsupported(spec sourcev1.GitRepositorySpec) []string {
	fields := []struct {
		name string
		set  bool
	}{
		{"spec.provider", !slices.Contains(providers, spec.Provider)},
		{"spec.serviceAccountName", spec.ServiceAccountName != "" && !ofCloud(spec)},
	}
	var out []string
	for _, f := range fields {
		if f.set {
			out = append(out, f.name)
		}
	}
	return out
}

// checkSpec refuses a spec with fields that can't be honoured, all of them by name.
func checkSpec(spec sourcev1.GitRepositorySpec) *failure {
	fields := unsupported(spec)
	if len(fields) == 0 {
		return nil
	}
	return &failure{
		reason: v1.ReasonFieldNotSupported,
		err:    fmt.Errorf("read %s: %w; nothing is fetched until the spec does without", strings.Join(fields, ", "), errNotSupported),
		final:  true,
	}
}

// reference is the commit that the spec wants.
func reference(spec sourcev1.GitRepositorySpec) git.Reference {
	if spec.Reference == nil {
		return git.Reference{}
	}
	ref := spec.Reference
	return git.Reference{Branch: ref.Branch, Tag: ref.Tag, SemVer: ref.SemVer, Name: ref.Name, Commit: ref.Commit}
}
