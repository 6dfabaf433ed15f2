package kustomization

import (
	"context"
	"fmt"
	"strings"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/decrypt"
	"github.com/holdfast-gitops/holdfast/internal/identity"
)

// inputs are what a build takes from the cluster. They are read in every pass, with the controller's own rights, in the namespace
// of the Kustomization: nothing else tells that a value has changed.
type inputs struct {
	substitution *build.Substitution
	// keys is nil without spec.decryption, and keysVersion says which state of the Secret they are from.
	keys        *decrypt.Keys
	keysVersion string
}

// key stands for the inputs. It is kept in memory only.
func (i inputs) key() string { return i.substitution.Key() + "/" + i.keysVersion }

// readInputs reads what the spec refers to.
func (p *pass) readInputs(ctx context.Context) (in inputs, err error) {
	if in.keys, in.keysVersion, err = p.readKeys(ctx); err != nil {
		return in, err
	}
	if in.keys != nil && p.Identity != nil {
		in.keys.WithIdentity(p.decryptionIdentity())
	}
	in.substitution, err = p.readSubstitution(ctx)
	return in, err
}

// readKeys returns what spec.decryption gives to decrypt with. A Secret of the spec switches off that of all Kustomizations.
func (p *pass) readKeys(ctx context.Context) (keys *decrypt.Keys, version string, err error) {
	spec := p.ks.Spec.Decryption
	switch {
	case spec == nil:
		return nil, "", nil
	case spec.SecretRef != nil:
		name := types.NamespacedName{Namespace: p.ks.Namespace, Name: spec.SecretRef.Name}
		secret, err := p.readKeySecret(ctx, name, "sops decryption Secret")
		if err != nil {
			return nil, "", err
		}
		keys, err = decrypt.ParseKeys(ctx, name, secret.Data)
		return keys, versionOf(secret), err
	case p.SOPSAgeSecret != "":
		name := types.NamespacedName{Namespace: p.OwnNamespace, Name: p.SOPSAgeSecret}
		secret, err := p.readKeySecret(ctx, name, "sops SOPS age decryption Secret")
		if err != nil {
			return nil, "", err
		}
		keys, err = decrypt.ParseAgeKeys(name, secret.Data)
		return keys, versionOf(secret), err
	}
	return &decrypt.Keys{}, "", nil
}

// decryptionIdentity is whose identity opens keys that the Secret has no credentials for.
func (p *pass) decryptionIdentity() *decrypt.Identity {
	who := &decrypt.Identity{Issuer: p.Identity, Asker: identity.Asker{Kind: v1.KustomizationKind,
		Object: types.NamespacedName{Namespace: p.ks.Namespace, Name: p.ks.Name}}}
	name := p.ks.Spec.Decryption.ServiceAccountName
	if name == "" && p.DefaultDecryptionAccount != "" {
		name, who.Asker.DefaultedBy = p.DefaultDecryptionAccount, identity.DecryptionFlag
	}
	if name != "" {
		who.Asker.Account = types.NamespacedName{Namespace: p.ks.Namespace, Name: name}
	}
	if p.SOPSVaultConfigMap == "" {
		return who
	}
	source := types.NamespacedName{Namespace: p.OwnNamespace, Name: p.SOPSVaultConfigMap}
	who.Vaults = decrypt.NewVaults(source, func(ctx context.Context) (map[string]string, error) {
		config := &corev1.ConfigMap{}
		err := p.Reader.Get(ctx, source, config)
		return config.Data, err
	})
	return who
}

func (p *pass) readKeySecret(ctx context.Context, name types.NamespacedName, what string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := p.Reader.Get(ctx, name, secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("cannot get %s '%s': %w", what, name, err)
	}
	return secret, err
}

func versionOf(secret *corev1.Secret) string {
	return string(secret.UID) + "/" + secret.ResourceVersion
}

// keyServiceTimeout bounds the requests of one build to key services. One that does not answer holds up one worker for as long.
const keyServiceTimeout = 30 * time.Second

// decrypter returns what decrypts with the keys of the inputs, nil without spec.decryption, and a function that ends it.
func (i inputs) decrypter(ctx context.Context) (build.Decrypter, context.CancelFunc) {
	if i.keys == nil {
		return nil, func() {}
	}
	limited, cancel := context.WithTimeout(ctx, keyServiceTimeout)
	return decrypt.New(limited, i.keys), cancel
}

// readSubstitution returns what spec.postBuild asks for, nil without it.
func (p *pass) readSubstitution(ctx context.Context) (*build.Substitution, error) {
	post := p.ks.Spec.PostBuild
	if post == nil {
		return nil, nil
	}
	variables, secret := map[string]string{}, false
	for _, ref := range post.SubstituteFrom {
		secret = secret || ref.Kind == "Secret"
		values, err := p.readVariables(ctx, ref)
		if err != nil {
			return nil, fmt.Errorf("substitute from '%s/%s' error: %w", ref.Kind, ref.Name, err)
		}
		for name, value := range values {
			variables[name] = oneLine(value)
		}
	}
	for name, value := range post.Substitute {
		variables[name] = oneLine(value)
	}
	return &build.Substitution{
		Variables: variables,
		Secret:    secret,
		Always:    post.SubstituteStrategy == fluxv1.SubstituteStrategyAlways,
		Lenient:   p.LenientSubstitution,
		WholeText: p.SubstituteWholeText,
	}, nil
}

// oneLine takes the line breaks out of a value, as Flux does: editors put one at the end.
func oneLine(value string) string { return strings.ReplaceAll(value, "\n", "") }

// readVariables reads the values that a reference names. An optional one may be missing, but not unreadable.
func (p *pass) readVariables(ctx context.Context, ref fluxv1.SubstituteReference) (map[string]string, error) {
	values := map[string]string{}
	key := client.ObjectKey{Namespace: p.ks.Namespace, Name: ref.Name}
	var err error
	switch ref.Kind {
	case "ConfigMap":
		config := &corev1.ConfigMap{}
		err = p.Reader.Get(ctx, key, config)
		values = config.Data
	case "Secret":
		secret := &corev1.Secret{}
		err = p.Reader.Get(ctx, key, secret)
		for name, value := range secret.Data {
			values[name] = string(value)
		}
	default:
		return nil, fmt.Errorf("kind is not supported: use ConfigMap or Secret")
	}
	if ref.Optional && apierrors.IsNotFound(err) {
		return nil, nil
	}
	return values, err
}

// tellInPlace tells of generated objects that an apply changed under their names, because a variable has another value. No pod
// restarts for it, though their hash makes it look as if.
func (p *pass) tellInPlace(changes []string) {
	for _, id := range p.built.InPlace {
		for _, change := range changes {
			if change == id.String()+" configured" {
				p.event(normal, meta.ProgressingReason, id.String()+" was changed under the same name: the hash in it was made before "+
					"variables were replaced, so that what reads it at its start keeps the old values until it is restarted")
			}
		}
	}
}
