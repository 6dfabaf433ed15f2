package identity

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/fluxcd/pkg/auth"
	"github.com/fluxcd/pkg/auth/aws"
	"github.com/fluxcd/pkg/auth/azure"
)

// Repository is a Git repository on a server of a cloud, which knows the identities of that cloud.
type Repository struct {
	// Provider says whose server it is: aws or azure.
	Provider string
	// URL is where it is.
	URL *url.URL
	// Proxy is what the cloud is reached through. Nil leaves that to the environment.
	Proxy *url.URL
	// OwnAuthority tells that the server may prove itself by an authority that somebody chose, and not the system.
	OwnAuthority bool
}

// Login is what lets in to a repository: a bearer token, or a username and a password.
type Login struct {
	Username, Password string
	BearerToken        string
}

// What credentials of a cloud are not sent to.
var (
	// ErrForeignServer says that a URL leads to no server of the cloud. Only another URL helps.
	ErrForeignServer = errors.New("the credentials of a cloud go to its own Git servers only")
	// ErrForeignAuthority says that a server could prove itself by whatever certificate somebody made.
	ErrForeignAuthority = errors.New("without serviceAccountName the credentials would be those of the controller, and go to a server that proves itself by the " +
		"certificate authority of the Secret; take ca.crt out of it, or name a ServiceAccount")
)

// The servers of each cloud. A name that somebody may have made below the same domain, such as that of a bucket, is none of them.
var (
	azureHosts = regexp.MustCompile(`^(dev\.azure\.com|[a-z0-9-]+\.visualstudio\.com)$`)
	awsHosts   = regexp.MustCompile(`^git-codecommit(-fips)?\.` + awsRegion + `\.amazonaws\.com(\.cn)?$`)
)

const (
	awsRegion     = `[a-z]{2,8}(-[a-z]+)+-[0-9]{1,2}`
	allAzureHosts = "https://dev.azure.com/... or https://ORGANISATION.visualstudio.com/..."
	allAWSHosts   = "https://git-codecommit.REGION.amazonaws.com/..."
)

func (r Repository) provider() (_ auth.GitCredentialsProvider, hosts *regexp.Regexp, written string, _ error) {
	switch r.Provider {
	case azure.ProviderName:
		return azure.Provider{}, azureHosts, allAzureHosts, nil
	case aws.ProviderName:
		return aws.Provider{}, awsHosts, allAWSHosts, nil
	}
	return nil, nil, "", fmt.Errorf("provider %q has no identities for Git: use aws or azure", r.Provider)
}

// check refuses what would take credentials to somebody else.
func (r Repository) check(own bool) (auth.GitCredentialsProvider, error) {
	provider, hosts, written, err := r.provider()
	if err != nil {
		return nil, err
	}
	if port := r.URL.Port(); r.URL.Scheme != "https" || port != "" && port != "443" || !hosts.MatchString(strings.ToLower(r.URL.Hostname())) {
		return nil, fmt.Errorf("%w; with provider %s the URL is %s", ErrForeignServer, r.Provider, written)
	}
	if own && r.OwnAuthority {
		return nil, ErrForeignAuthority
	}
	return provider, nil
}

// Git returns what lets in to a repository. What it returns is for that URL alone.
func (i *Issuer) Git(ctx context.Context, a Asker, r Repository) (Login, error) {
	provider, err := r.check(a.own())
	if err != nil {
		return Login{}, err
	}
	options, err := i.options(a)
	if err != nil {
		return Login{}, err
	}
	bare := *r.URL
	bare.User = nil
	options = append(options, auth.WithGitURL(bare))
	// Some of what the controller has for itself is got without TLS, on its own machine: that is no matter of a proxy that others chose.
	if r.Proxy != nil && !a.own() {
		options = append(options, auth.WithProxyURL(*r.Proxy))
	}
	got, err := auth.GetGitCredentials(ctx, provider, options...)
	if err != nil {
		return Login{}, explain(a, err)
	}
	return Login{Username: got.Username, Password: got.Password, BearerToken: got.BearerToken}, nil
}
