package identity

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/fluxcd/pkg/auth"
	"github.com/fluxcd/pkg/auth/aws"
	"github.com/fluxcd/pkg/auth/azure"
	"github.com/fluxcd/pkg/auth/gcp"
	"github.com/fluxcd/pkg/auth/generic"
	"golang.org/x/oauth2"
	"k8s.io/apimachinery/pkg/types"
)

// The credentials of clouds are for their own libraries, which send them nowhere else. They are asked for when they are needed, until
// the context ends.

// AWS are the credentials that an identity has in a region of AWS.
func (i *Issuer) AWS(ctx context.Context, a Asker, region string) (awssdk.CredentialsProvider, error) {
	if err := checkRegion(region); err != nil {
		return nil, err
	}
	options, err := i.options(a)
	if err != nil {
		return nil, err
	}
	return aws.NewCredentialsProvider(ctx, append(options, auth.WithSTSRegion(region))...), nil
}

// Azure is the credential that an identity has in Azure.
func (i *Issuer) Azure(ctx context.Context, a Asker) (azcore.TokenCredential, error) {
	options, err := i.options(a)
	if err != nil {
		return nil, err
	}
	return azure.NewTokenCredential(ctx, options...), nil
}

// GCP are the tokens that an identity has in Google's cloud.
func (i *Issuer) GCP(ctx context.Context, a Asker) (oauth2.TokenSource, error) {
	options, err := i.options(a)
	if err != nil {
		return nil, err
	}
	return gcp.NewTokenSource(ctx, options...), nil
}

// Proof is a token of a ServiceAccount that proves to one audience who it is.
type Proof struct {
	Token   string
	Account types.NamespacedName
}

// errNoAccount says that a token can't be one of a ServiceAccount.
var errNoAccount = errors.New("the API server gave a token that is none of a ServiceAccount")

// Prove returns a token for one audience. The caller answers for the audience: it has to be who the token is then sent to.
func (i *Issuer) Prove(ctx context.Context, a Asker, audience string) (Proof, error) {
	options, err := i.options(a)
	if err != nil {
		return Proof{}, err
	}
	got, err := auth.GetAccessToken(ctx, i.tokenProvider(), append(options, auth.WithAudiences(audience))...)
	if err != nil {
		return Proof{}, explain(a, err)
	}
	token, ok := got.(*generic.Token)
	if !ok {
		return Proof{}, errNoAccount
	}
	account, err := subject(token.Token)
	if err != nil {
		return Proof{}, err
	}
	return Proof{Token: token.Token, Account: account}, nil
}

// subject is the account that a token is of. Whoever it is shown to checks it.
func subject(token string) (types.NamespacedName, error) {
	var claims struct {
		Subject string `json:"sub"`
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return types.NamespacedName{}, errNoAccount
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return types.NamespacedName{}, fmt.Errorf("%w: it is no JWT", errNoAccount)
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return types.NamespacedName{}, fmt.Errorf("%w: it is no JWT", errNoAccount)
	}
	fields := strings.Split(claims.Subject, ":")
	if len(fields) != 4 || fields[0] != "system" || fields[1] != "serviceaccount" || fields[2] == "" || fields[3] == "" {
		return types.NamespacedName{}, errNoAccount
	}
	return types.NamespacedName{Namespace: fields[2], Name: fields[3]}, nil
}
