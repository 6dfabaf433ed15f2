package decrypt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/aws/aws-sdk-go-v2/aws"
	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	vaultapi "github.com/hashicorp/vault/api"
	"golang.org/x/oauth2"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-gitops/holdfast/internal/identity"
)

// Identity opens keys where there are no static credentials for them.
type Identity struct {
	// Issuer and Asker say whose identity it is.
	Issuer *identity.Issuer
	Asker  identity.Asker
	// Vaults are the servers that the identity logs in to. Nil for no logins at all: then the token of the process is used.
	Vaults *Vaults
}

// WithIdentity adds an identity. What the Secret has goes before it.
func (k *Keys) WithIdentity(i *Identity) { k.identity = i }

// names tells whether an account is named, which then is used for everything, and nothing of the controller instead.
func (i *Identity) names() bool { return i != nil && i.Asker.Account.Name != "" }

func (i *Identity) as(operation string) identity.Asker {
	asker := i.Asker
	asker.Operation = operation
	return asker
}

// credentialsForAWS returns those for a key, nil to use those of the process.
func (k *Keys) credentialsForAWS(ctx context.Context, arn string) (aws.CredentialsProvider, error) {
	if k.aws != nil || !k.identity.names() {
		return k.aws, nil
	}
	// arn:partition:kms:region:account:key
	fields := strings.Split(arn, ":")
	if len(fields) < 6 || fields[3] == "" {
		return nil, errors.New("the ARN names no region")
	}
	return k.identity.Issuer.AWS(ctx, k.identity.as(fluxv1.MetricDecryptWithAWS), fields[3])
}

func (k *Keys) credentialForAzure(ctx context.Context) (azcore.TokenCredential, error) {
	if k.azure != nil || !k.identity.names() {
		return k.azure, nil
	}
	return k.identity.Issuer.Azure(ctx, k.identity.as(fluxv1.MetricDecryptWithAzure))
}

func (k *Keys) tokensForGCP(ctx context.Context) (oauth2.TokenSource, error) {
	if k.gcp != nil || !k.identity.names() {
		return k.gcp, nil
	}
	return k.identity.Issuer.GCP(ctx, k.identity.as(fluxv1.MetricDecryptWithGCP))
}

// Vaults are the servers that may be logged in to, and the tokens that they gave for one account.
type Vaults struct {
	source types.NamespacedName
	load   func(context.Context) (map[string]string, error)

	mu     sync.Mutex
	paths  map[string]string
	tokens map[string]string
}

// NewVaults returns the servers in a ConfigMap, which is read when the first one is needed.
func NewVaults(source types.NamespacedName, load func(context.Context) (data map[string]string, err error)) *Vaults {
	return &Vaults{source: source, load: load, tokens: map[string]string{}}
}

// vaultsKey is where a ConfigMap has them.
const vaultsKey = "config.yaml"

// read returns the paths to log in at, by address.
func (v *Vaults) read(ctx context.Context) (map[string]string, error) {
	data, err := v.load(ctx)
	if err != nil {
		return nil, fmt.Errorf("failed to get Vault ConfigMap '%s' of --sops-vault-configmap: %w", v.source, err)
	}
	text, ok := data[vaultsKey]
	if !ok {
		return nil, fmt.Errorf("the Vault ConfigMap '%s' is missing the '%s' key: list the servers there", v.source, vaultsKey)
	}
	var config fluxv1.VaultConfig
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return nil, fmt.Errorf("failed to parse '%s' in Vault ConfigMap '%s': %w", vaultsKey, v.source, err)
	}
	paths := map[string]string{}
	for _, instance := range config.Instances {
		paths[instance.Address] = instance.LoginPath
	}
	return paths, nil
}

// login returns the token that a server gives to the identity, once for each server. One that is not listed is not asked, and shown
// no token at all.
func (i *Identity) login(ctx context.Context, address string) (string, error) {
	v := i.Vaults
	v.mu.Lock()
	defer v.mu.Unlock()
	if token, ok := v.tokens[address]; ok {
		return token, nil
	}
	if v.paths == nil {
		paths, err := v.read(ctx)
		if err != nil {
			return "", err
		}
		v.paths = paths
	}
	path := v.paths[address]
	if path == "" {
		return "", fmt.Errorf("no Vault login path configured for this address in ConfigMap '%s': add it there, or sops.vault-token to the decryption Secret", v.source)
	}
	proof, err := i.Issuer.Prove(ctx, i.as(fluxv1.MetricDecryptWithVault), address)
	if err != nil {
		return "", fmt.Errorf("get a token to log in with: %w", err)
	}
	token, err := logIn(ctx, address, path, proof)
	if err != nil {
		return "", err
	}
	v.tokens[address] = token
	return token, nil
}

// logIn shows a token to a server. The role is that of the account.
func logIn(ctx context.Context, address, path string, proof identity.Proof) (string, error) {
	config := vaultapi.DefaultConfig()
	if config.Error != nil {
		return "", fmt.Errorf("read the VAULT variables of the process: %w", config.Error)
	}
	config.Address, config.MaxRetries = address, 0
	client, err := vaultapi.NewClient(config)
	if err != nil {
		return "", fmt.Errorf("make a client: %w", err)
	}
	// The one of the process goes to no server that is logged in to.
	client.ClearToken()
	role := proof.Account.Namespace + "_" + proof.Account.Name
	answer, err := client.Logical().WriteWithContext(ctx, path, map[string]any{"role": role, "jwt": proof.Token})
	if err != nil {
		return "", fmt.Errorf("log in at %s with the role %s: %w", path, role, err)
	}
	if answer == nil || answer.Auth == nil || answer.Auth.ClientToken == "" {
		return "", fmt.Errorf("log in at %s with the role %s: the answer has no token", path, role)
	}
	return answer.Auth.ClientToken, nil
}
