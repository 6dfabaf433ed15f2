package gitrepository

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/cache"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-gitops/holdfast/internal/identity"
	"github.com/holdfast-gitops/holdfast/internal/source/git"
)

// byIdentity has the cloud that runs the Git server give credentials, in place of those in the Secret.
func (r *reconciler) byIdentity(ctx context.Context, repository *sourcev1.GitRepository, data map[string][]byte, auth *git.Auth) *failure {
	spec := repository.Spec
	if len(data[keyAppID]) > 0 {
		return fetchFailed(sourcev1.InvalidProviderConfigurationReason,
			fmt.Errorf("the Secret of spec.secretRef holds a GitHub App, and spec.provider is %s; set it to github, or take the app out of the Secret", spec.Provider))
	}
	address, err := url.Parse(spec.URL)
	if err != nil {
		return nil // who connects says so, without a word of what may be in the URL
	}
	login, err := r.identity.Git(ctx, r.asker(repository), identity.Repository{
		Provider: spec.Provider, URL: address, Proxy: auth.Proxy, OwnAuthority: len(auth.TLS.CA) > 0})
	if err != nil {
		return notLetIn(fmt.Errorf("get credentials for spec.url by provider %s: %w", spec.Provider, err))
	}
	auth.Username, auth.Password, auth.BearerToken = login.Username, login.Password, login.BearerToken
	return nil
}

// asker is who asks for credentials: the account that the spec names, or that of the flag, or the controller.
func (r *reconciler) asker(repository *sourcev1.GitRepository) identity.Asker {
	a := identity.Asker{Kind: sourcev1.GitRepositoryKind, Object: types.NamespacedName{Namespace: repository.Namespace, Name: repository.Name},
		Operation: cache.OperationReconcile}
	account := repository.Spec.ServiceAccountName
	if account == "" && r.defaultAccount != "" {
		account, a.DefaultedBy = r.defaultAccount, identity.SourceFlag
	}
	if account != "" {
		a.Account = types.NamespacedName{Namespace: repository.Namespace, Name: account}
	}
	return a
}

// notLetIn classes why there are no credentials, as Flux does.
func notLetIn(err error) *failure {
	f := fetchFailed(sourcev1.AuthenticationFailedReason, err)
	switch {
	case errors.Is(err, identity.ErrGateOff):
		f.reason, f.final = meta.FeatureGateDisabledReason, true
	case errors.Is(err, identity.ErrForeignServer):
		f.reason, f.final = sourcev1.InvalidProviderConfigurationReason, true
	case errors.Is(err, identity.ErrForeignAuthority):
		f.reason = sourcev1.InvalidProviderConfigurationReason
	}
	return f
}

// adviseOnIdentity says what to do when the server refuses an identity: there is nothing in a Secret to check.
func (r *reconciler) adviseOnIdentity(repository *sourcev1.GitRepository, f *failure) {
	var refused *git.Error
	if !errors.As(f.err, &refused) || !refused.Refused() {
		return
	}
	whose := "the controller has"
	if account := r.asker(repository).Account; account.Name != "" {
		whose = fmt.Sprintf("ServiceAccount/%s stands for", account)
	}
	refused.Advice = fmt.Sprintf("give the identity that %s read access to the repository, by provider %s", whose, repository.Spec.Provider)
}
