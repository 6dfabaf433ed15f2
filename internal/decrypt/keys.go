package decrypt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"filippo.io/age"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/aws/aws-sdk-go-v2/aws"
	"golang.org/x/oauth2"
	"k8s.io/apimachinery/pkg/types"
)

// Keys open the data keys of SOPS files. The zero value opens none but those of cloud services that know the process itself.
type Keys struct {
	age        []age.Identity
	pgp        openpgp.EntityList
	vaultToken string
	aws        aws.CredentialsProvider
	azure      azcore.TokenCredential
	gcp        oauth2.TokenSource
	identity   *Identity
}

// The entries of a decryption Secret, by name or by extension.
const (
	pgpExtension  = ".asc"
	ageExtension  = ".agekey"
	vaultTokenKey = "sops.vault-token"
	awsKey        = "sops.aws-kms"
	azureKey      = "sops.azure-kv"
	gcpKey        = "sops.gcp-kms"
)

// ImportError says that an entry of a decryption Secret can't be used. What is in the entry is not said.
type ImportError struct {
	// Secret and Entry are where it is.
	Secret types.NamespacedName
	Entry  string
	// Err says what was expected.
	Err error
}

// Error has Flux's text.
func (e *ImportError) Error() string {
	return fmt.Sprintf("failed to import '%s' data from sops decryption Secret '%s': %s", e.Entry, e.Secret, e.Err)
}

// Unwrap returns the fault.
func (e *ImportError) Unwrap() error { return e.Err }

// ParseKeys reads the entries of a Secret that spec.decryption.secretRef names. Entries of other names are left alone. The context
// is for tokens that are fetched later.
func ParseKeys(ctx context.Context, secret types.NamespacedName, data map[string][]byte) (*Keys, error) {
	keys := &Keys{}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if err := keys.add(ctx, name, data[name]); err != nil {
			return nil, &ImportError{Secret: secret, Entry: name, Err: err}
		}
	}
	return keys, nil
}

// ParseAgeKeys reads the age identities of a Secret, and nothing else of it: credentials of all would stand in for those of one.
func ParseAgeKeys(secret types.NamespacedName, data map[string][]byte) (*Keys, error) {
	keys := &Keys{}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if path.Ext(name) != ageExtension {
			continue
		}
		if err := keys.addAge(data[name]); err != nil {
			return nil, &ImportError{Secret: secret, Entry: name, Err: err}
		}
	}
	return keys, nil
}

func (k *Keys) add(ctx context.Context, name string, value []byte) (err error) {
	switch {
	case path.Ext(name) == pgpExtension:
		return k.addPGP(value)
	case path.Ext(name) == ageExtension:
		return k.addAge(value)
	case name == vaultTokenKey:
		k.vaultToken = strings.TrimSpace(string(value))
	case name == awsKey:
		k.aws, err = parseAWS(value)
	case name == azureKey:
		k.azure, err = parseAzure(value)
	case name == gcpKey:
		k.gcp, err = parseGCP(ctx, value)
	}
	return err
}

// addAge reads one identity a line, X25519 or hybrid. Identities of plugins would run a program.
func (k *Keys) addAge(value []byte) error {
	for i, line := range strings.Split(string(value), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		identity, err := parseAge(line)
		if err != nil {
			return fmt.Errorf("failed to parse and add to age identities: line %d: %w", i+1, err)
		}
		k.age = append(k.age, identity)
	}
	return nil
}

func parseAge(line string) (age.Identity, error) {
	var identity age.Identity
	var err error
	switch {
	case strings.HasPrefix(line, "AGE-PLUGIN-"):
		return nil, errors.New("identities of plugins are not supported")
	case strings.HasPrefix(line, "AGE-SECRET-KEY-PQ-1"):
		identity, err = age.ParseHybridIdentity(line)
	case strings.HasPrefix(line, "AGE-SECRET-KEY-1"):
		identity, err = age.ParseX25519Identity(line)
	default:
		return nil, errors.New("unknown identity type, want AGE-SECRET-KEY-1... or AGE-SECRET-KEY-PQ-1...")
	}
	if err != nil {
		return nil, errors.New("malformed secret key")
	}
	return identity, nil
}

func (k *Keys) addPGP(value []byte) error {
	ring, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(value))
	if err != nil {
		return errors.New("no armored OpenPGP key: export one with gpg --export-secret-keys --armor")
	}
	k.pgp = append(k.pgp, ring...)
	return nil
}
