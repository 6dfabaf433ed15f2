package decrypt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
	agearmor "filippo.io/age/armor"
	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/getsops/sops/v3/azkv"
	"github.com/getsops/sops/v3/gcpkms"
	"github.com/getsops/sops/v3/hcvault"
	"github.com/getsops/sops/v3/keyservice"
	"github.com/getsops/sops/v3/kms"
)

// service opens data keys with the keys that were given, in SOPS' own terms. It remembers what went wrong, since SOPS wraps that in
// more text than a condition can take.
type service struct {
	keyservice.UnimplementedKeyServiceServer

	ctx      context.Context //nolint:containedctx // SOPS calls with one of its own
	keys     *Keys
	failures []string
}

// Decrypt opens one data key.
func (s *service) Decrypt(_ context.Context, request *keyservice.DecryptRequest) (*keyservice.DecryptResponse, error) {
	name, plain, err := s.open(request)
	if err != nil {
		s.failures = append(s.failures, name+": "+err.Error())
		return nil, err
	}
	return &keyservice.DecryptResponse{Plaintext: plain}, nil
}

// open returns the name of the key that was asked for, and the data key.
func (s *service) open(request *keyservice.DecryptRequest) (name string, plain []byte, err error) {
	if request.Key == nil {
		return "no key", nil, errors.New("not supported")
	}
	switch k := request.Key.KeyType.(type) {
	case *keyservice.Key_AgeKey:
		plain, err = s.openAge(request.Ciphertext)
		return "age " + k.AgeKey.Recipient, plain, err
	case *keyservice.Key_PgpKey:
		plain, err = s.openPGP(request.Ciphertext)
		return "PGP " + k.PgpKey.Fingerprint, plain, err
	case *keyservice.Key_VaultKey:
		plain, err = s.openVault(k.VaultKey, request.Ciphertext)
		return "Vault " + k.VaultKey.VaultAddress, plain, err
	case *keyservice.Key_KmsKey:
		plain, err = s.openAWS(k.KmsKey, request.Ciphertext)
		return "AWS KMS " + k.KmsKey.Arn, plain, err
	case *keyservice.Key_AzureKeyvaultKey:
		plain, err = s.openAzure(k.AzureKeyvaultKey, request.Ciphertext)
		return "Azure Key Vault " + k.AzureKeyvaultKey.VaultUrl, plain, err
	case *keyservice.Key_GcpKmsKey:
		plain, err = s.openGCP(k.GcpKmsKey, request.Ciphertext)
		return "GCP KMS " + k.GcpKmsKey.ResourceId, plain, err
	}
	return fmt.Sprintf("%T", request.Key.KeyType), nil, errors.New("this kind of key is not supported")
}

func (s *service) openAge(ciphertext []byte) ([]byte, error) {
	if len(s.keys.age) == 0 {
		return nil, errors.New("no age identity is given")
	}
	plain, err := age.Decrypt(agearmor.NewReader(bytes.NewReader(ciphertext)), s.keys.age...)
	var none *age.NoIdentityMatchError
	switch {
	case errors.As(err, &none):
		return nil, errors.New("none of the identities that are given matches")
	case err != nil:
		return nil, errors.New("the encrypted data key is damaged")
	}
	return io.ReadAll(plain)
}

func (s *service) openPGP(ciphertext []byte) ([]byte, error) {
	if len(s.keys.pgp) == 0 {
		return nil, errors.New("no PGP key is given")
	}
	block, err := armor.Decode(bytes.NewReader(ciphertext))
	if err != nil {
		return nil, errors.New("the encrypted data key is damaged")
	}
	message, err := openpgp.ReadMessage(block.Body, s.keys.pgp, nil, nil)
	if err != nil {
		return nil, errors.New("none of the PGP keys that are given opens it: it takes the private key, without a passphrase")
	}
	return io.ReadAll(message.UnverifiedBody)
}

func (s *service) openVault(key *keyservice.VaultKey, ciphertext []byte) ([]byte, error) {
	master := &hcvault.MasterKey{VaultAddress: key.VaultAddress, EnginePath: key.EnginePath, KeyName: key.KeyName, EncryptedKey: string(ciphertext)}
	token, err := s.vaultToken(key.VaultAddress)
	if err != nil {
		return nil, err
	}
	if token == "" {
		return nil, errors.New("no token is given: add sops.vault-token to the decryption Secret")
	}
	hcvault.Token(token).ApplyToMasterKey(master)
	return master.DecryptContext(s.ctx)
}

// vaultToken is the one of the Secret, or else of a login, or else of the process.
func (s *service) vaultToken(address string) (string, error) {
	switch {
	case s.keys.vaultToken != "":
		return s.keys.vaultToken, nil
	case s.keys.identity != nil && s.keys.identity.Vaults != nil:
		return s.keys.identity.login(s.ctx, address)
	}
	// SOPS would look into a home directory, too.
	return os.Getenv("VAULT_TOKEN"), nil
}

func (s *service) openAWS(key *keyservice.KmsKey, ciphertext []byte) ([]byte, error) {
	context := map[string]*string{}
	for name, value := range key.Context {
		context[name] = &value
	}
	master := &kms.MasterKey{Arn: key.Arn, Role: key.Role, EncryptionContext: context, AwsProfile: key.AwsProfile, EncryptedKey: string(ciphertext)}
	credentials, err := s.keys.credentialsForAWS(s.ctx, key.Arn)
	if err != nil {
		return nil, err
	}
	if credentials != nil {
		// A profile is one of the process.
		master.AwsProfile = ""
		kms.NewCredentialsProvider(credentials).ApplyToMasterKey(master)
	}
	return master.DecryptContext(s.ctx)
}

func (s *service) openAzure(key *keyservice.AzureKeyVaultKey, ciphertext []byte) ([]byte, error) {
	master := &azkv.MasterKey{VaultURL: key.VaultUrl, Name: key.Name, Version: key.Version, EncryptedKey: string(ciphertext)}
	credential, err := s.keys.credentialForAzure(s.ctx)
	if err != nil {
		return nil, err
	}
	if credential != nil {
		azkv.NewTokenCredential(credential).ApplyToMasterKey(master)
	}
	return master.DecryptContext(s.ctx)
}

func (s *service) openGCP(key *keyservice.GcpKmsKey, ciphertext []byte) ([]byte, error) {
	master := &gcpkms.MasterKey{ResourceID: key.ResourceId, EncryptedKey: string(ciphertext)}
	tokens, err := s.keys.tokensForGCP(s.ctx)
	if err != nil {
		return nil, err
	}
	if tokens != nil {
		gcpkms.NewTokenSource(tokens).ApplyToMasterKey(master)
	}
	return master.DecryptContext(s.ctx)
}

// maxFailure bounds what one service says; answers of servers may be long.
const maxFailure = 300

// problem is what went wrong with the keys of a file, on one line.
func (s *service) problem() string {
	if len(s.failures) == 0 {
		return "it names no key"
	}
	texts := make([]string, 0, len(s.failures))
	for _, f := range s.failures {
		f = strings.Join(strings.Fields(f), " ")
		if len(f) > maxFailure {
			f = strings.ToValidUTF8(f[:maxFailure], "") + "..."
		}
		texts = append(texts, f)
	}
	return strings.Join(texts, "; ")
}
