// Package sopsfile encrypts files as the program sops does, for tests.
package sopsfile

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/getsops/sops/v3"
	"github.com/getsops/sops/v3/aes"
	sopsage "github.com/getsops/sops/v3/age"
	"github.com/getsops/sops/v3/azkv"
	"github.com/getsops/sops/v3/config"
	"github.com/getsops/sops/v3/gcpkms"
	"github.com/getsops/sops/v3/keys"
	"github.com/getsops/sops/v3/kms"
	"github.com/getsops/sops/v3/pgp"
	"github.com/getsops/sops/v3/stores/dotenv"
	"github.com/getsops/sops/v3/stores/ini"
	"github.com/getsops/sops/v3/stores/json"
	"github.com/getsops/sops/v3/stores/yaml"
)

// AgeKey makes an age key; identity is what goes into a decryption Secret.
func AgeKey(t testing.TB) (identity, recipient string) {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return key.String(), key.Recipient().String()
}

// HybridKey makes an age key of the post-quantum kind.
func HybridKey(t testing.TB) (identity, recipient string) {
	t.Helper()
	key, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return key.String(), key.Recipient().String()
}

// Age returns the master key of a recipient.
func Age(t testing.TB, recipient string) keys.MasterKey {
	t.Helper()
	key, err := sopsage.MasterKeyFromRecipient(recipient)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// PGPKey makes a PGP key; armored is the private part, as it goes into a decryption Secret.
func PGPKey(t testing.TB) (armored string, entity *openpgp.Entity) {
	t.Helper()
	entity, err := openpgp.NewEntity("test", "", "test@example.invalid", nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := armor.Encode(&out, openpgp.PrivateKeyType, nil)
	if err == nil {
		err = entity.SerializePrivate(w, nil)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), entity
}

// PGP returns the master key of an entity.
func PGP(entity *openpgp.Entity) keys.MasterKey {
	return &pgpKey{MasterKey: pgp.NewMasterKeyFromFingerprint(fmt.Sprintf("%X", entity.PrimaryKey.Fingerprint)), entity: entity}
}

// pgpKey encrypts without a key ring on disk.
type pgpKey struct {
	*pgp.MasterKey

	entity *openpgp.Entity
}

func (k *pgpKey) Encrypt(dataKey []byte) error {
	var out bytes.Buffer
	armored, err := armor.Encode(&out, "PGP MESSAGE", nil)
	if err != nil {
		return err
	}
	plain, err := openpgp.Encrypt(armored, []*openpgp.Entity{k.entity}, nil, nil, nil)
	if err != nil {
		return err
	}
	if _, err := plain.Write(dataKey); err != nil {
		return err
	}
	if err := plain.Close(); err != nil {
		return err
	}
	if err := armored.Close(); err != nil {
		return err
	}
	k.EncryptedKey = out.String()
	return nil
}

func (k *pgpKey) EncryptIfNeeded(dataKey []byte) error { return k.Encrypt(dataKey) }

// Cloud returns a master key of a cloud for a key service that gives back what it gets: that of AWS, Azure or Google.
func Cloud(master keys.MasterKey) keys.MasterKey { return &cloudKey{master} }

// cloudKey asks no service.
type cloudKey struct{ keys.MasterKey }

func (k *cloudKey) Encrypt(dataKey []byte) error {
	switch master := k.MasterKey.(type) {
	case *kms.MasterKey:
		master.EncryptedKey = base64.StdEncoding.EncodeToString(dataKey)
	case *gcpkms.MasterKey:
		master.EncryptedKey = base64.StdEncoding.EncodeToString(dataKey)
	case *azkv.MasterKey:
		master.EncryptedKey = base64.RawURLEncoding.EncodeToString(dataKey)
	default:
		return fmt.Errorf("%T is no key of a cloud", master)
	}
	return nil
}

// Options shape the encryption.
type Options struct {
	// Format is yaml, json, dotenv, ini or binary.
	Format string
	// EncryptedRegex limits it to the values below keys that match.
	EncryptedRegex string
	// Keys open the file.
	Keys []keys.MasterKey
}

// Encrypt encrypts a file.
func Encrypt(t testing.TB, o Options, plain string) string {
	t.Helper()
	store := map[string]sops.Store{
		"yaml": yaml.NewStore(&config.YAMLStoreConfig{}), "json": json.NewStore(&config.JSONStoreConfig{Indent: -1}),
		"dotenv": dotenv.NewStore(&config.DotenvStoreConfig{}), "ini": ini.NewStore(&config.INIStoreConfig{}),
		"binary": json.NewBinaryStore(&config.JSONBinaryStoreConfig{Indent: -1}),
	}[o.Format]
	branches, err := store.LoadPlainFile([]byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	tree := sops.Tree{Branches: branches, Metadata: sops.Metadata{
		EncryptedRegex: o.EncryptedRegex, Version: "3.13.2", LastModified: time.Now().UTC()}}
	dataKey := bytes.Repeat([]byte{7}, 32)
	var group sops.KeyGroup
	for _, key := range o.Keys {
		if err := key.Encrypt(dataKey); err != nil {
			t.Fatal(err)
		}
		// SOPS writes down its own types only.
		switch k := key.(type) {
		case *pgpKey:
			key = k.MasterKey
		case *cloudKey:
			key = k.MasterKey
		}
		group = append(group, key)
	}
	tree.Metadata.KeyGroups = []sops.KeyGroup{group}
	cipher := aes.NewCipher()
	mac, err := tree.Encrypt(dataKey, cipher)
	if err != nil {
		t.Fatal(err)
	}
	tree.Metadata.MessageAuthenticationCode, err = cipher.Encrypt(mac, dataKey, tree.Metadata.LastModified.Format(time.RFC3339))
	if err != nil {
		t.Fatal(err)
	}
	out, err := store.EmitEncryptedFile(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
