package identity

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/auth"
	"github.com/fluxcd/pkg/auth/aws"
	"github.com/fluxcd/pkg/auth/azure"
	"github.com/fluxcd/pkg/auth/gcp"
	"github.com/fluxcd/pkg/auth/generic"
)

// Cluster is what a ConfigMap says of a cluster.
type Cluster struct {
	// Provider says whose cluster it is: aws, azure, gcp or generic.
	Provider string
	// Resource is the name of the cluster in its cloud.
	Resource string
	// Address is that of the API server, and CA the authority of its certificate, as PEM.
	Address, CA string
	// Audiences are whom a token is for.
	Audiences []string
	// Account is a ServiceAccount of the namespace of the ConfigMap; empty for none.
	Account string
}

// ParseCluster reads the data of a ConfigMap. Other keys are left alone.
func ParseCluster(data map[string]string) (Cluster, error) {
	c := Cluster{
		Provider: data[meta.KubeConfigKeyProvider],
		Resource: data[meta.KubeConfigKeyCluster],
		Address:  data[meta.KubeConfigKeyAddress],
		CA:       data[meta.KubeConfigKeyCACert],
		Account:  data[meta.KubeConfigKeyServiceAccountName],
	}
	if _, err := c.provider(); err != nil {
		return c, err
	}
	// What is kept is kept under a text that has these in it, line by line.
	for key, value := range map[string]string{meta.KubeConfigKeyCluster: c.Resource, meta.KubeConfigKeyAddress: c.Address,
		meta.KubeConfigKeyServiceAccountName: c.Account, meta.KubeConfigKeyAudiences: strings.ReplaceAll(data[meta.KubeConfigKeyAudiences], "\n", "")} {
		if strings.ContainsFunc(value, isOdd) {
			return c, fmt.Errorf("key %q has a control character or a comma in it: it has to be one line of plain text", key)
		}
	}
	for line := range strings.SplitSeq(data[meta.KubeConfigKeyAudiences], "\n") {
		if line = strings.TrimSpace(line); line != "" {
			c.Audiences = append(c.Audiences, line)
		}
	}
	return c, nil
}

func isOdd(r rune) bool { return unicode.IsControl(r) || r == ',' }

func (c Cluster) provider() (auth.RESTConfigProvider, error) {
	switch c.Provider {
	case generic.ProviderName:
		return generic.Provider{}, nil
	case aws.ProviderName:
		return aws.Provider{}, nil
	case azure.ProviderName:
		return azure.Provider{}, nil
	case gcp.ProviderName:
		return gcp.Provider{}, nil
	case "":
		return nil, fmt.Errorf("key %q is missing: set it to aws, azure, gcp or generic", meta.KubeConfigKeyProvider)
	}
	return nil, fmt.Errorf("key %q is %q: use aws, azure, gcp or generic", meta.KubeConfigKeyProvider, c.Provider)
}

// What the controller's own identity is not used for. The fields are those of whoever wrote the ConfigMap.
var (
	errOwnAudiences = errors.New("audiences without serviceAccountName: the token would be that of the controller, good for whom audiences names, and go to " +
		"the address that is given; leave audiences out, which limits the token to the address, or name a ServiceAccount")
	errOwnAddress = errors.New("address without serviceAccountName: the credentials would be those of the controller, and go to the address that is given; " +
		"leave address out, so that it is asked of the cloud, or name a ServiceAccount")
	errRegion    = errors.New("it is no region of AWS, such as eu-west-2")
	errNoAddress = errors.New("address is missing: the provider generic has to be told where the API server is")
)

// check refuses what would take the controller's own credentials somewhere else.
func (c Cluster) check(own bool) error {
	switch {
	case c.Provider == generic.ProviderName && c.Address == "":
		return errNoAddress
	case own && c.Provider == generic.ProviderName && len(c.Audiences) > 0:
		return errOwnAudiences
	case own && c.Provider != generic.ProviderName && c.Address != "":
		return errOwnAddress
	case c.Provider == aws.ProviderName:
		return checkARN(c.Resource)
	}
	return nil
}

// regions are part of the names of the servers that credentials go to, and somebody wrote them.
var regions = regexp.MustCompile("^" + awsRegion + "$")

func checkRegion(region string) error {
	if !regions.MatchString(region) {
		return fmt.Errorf("region %q: %w", region, errRegion)
	}
	return nil
}

// checkARN looks at the region in arn:aws:eks:REGION:ACCOUNT:cluster/NAME. The library looks at the rest.
func checkARN(arn string) error {
	if fields := strings.Split(arn, ":"); len(fields) > 3 {
		return checkRegion(fields[3])
	}
	return nil
}

// Access is how a cluster is reached, for a while.
type Access struct {
	// Host is an address by https, and CA the authority of its certificate; the system's when empty.
	Host string
	CA   []byte
	// Token is shown to the API server.
	Token string
	// RenewAfter is when there should be another one.
	RenewAfter time.Time
}

// Anew returns the same as Cluster, with a token that was not given before: one that is kept may be of an account that was deleted
// and made again.
func (i *Issuer) Anew(ctx context.Context, a Asker, c Cluster) (Access, error) {
	return (&Issuer{client: i.client, objectLevel: i.objectLevel, mounted: i.mounted}).Cluster(ctx, a, c)
}

// Cluster returns how to reach a cluster with an identity.
func (i *Issuer) Cluster(ctx context.Context, a Asker, c Cluster) (Access, error) {
	provider, err := c.provider()
	if err != nil {
		return Access{}, err
	}
	if c.Provider == generic.ProviderName {
		provider = i.tokenProvider()
	}
	if err := c.check(a.own()); err != nil {
		return Access{}, err
	}
	options, err := i.options(a)
	if err != nil {
		return Access{}, err
	}
	options = append(options, auth.WithClusterResource(c.Resource), auth.WithClusterAddress(c.Address), auth.WithCAData(c.CA))
	if len(c.Audiences) > 0 {
		options = append(options, auth.WithAudiences(c.Audiences...))
	}
	config, err := auth.GetRESTConfig(ctx, provider, options...)
	if err != nil {
		return Access{}, explain(a, err)
	}
	// Clouds leave out the scheme, and no token goes without TLS.
	host, err := auth.ParseClusterAddress(config.Host)
	if err != nil {
		return Access{}, explain(a, err)
	}
	now := time.Now()
	return Access{Host: host, CA: config.CAData, Token: config.BearerToken, RenewAfter: now.Add(config.ExpiresAt.Sub(now) * 8 / 10)}, nil
}
