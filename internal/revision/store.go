package revision

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/paging"
)

// SecretType is the type of the Secrets that hold revisions.
const SecretType corev1.SecretType = "holdfast.dev/revision"

// OwnerLabel on these Secrets has the UID of the Kustomization.
const OwnerLabel = v1.AnnotationPrefix + "revision-of"

// The annotations of the Secrets. Those that describe the whole stand on the first chunk.
const (
	revisionKey = v1.AnnotationPrefix + "revision"
	digestKey   = v1.AnnotationPrefix + "digest"
	healthyKey  = v1.AnnotationPrefix + "healthy-since"
	sumKey      = v1.AnnotationPrefix + "checksum"
	countKey    = v1.AnnotationPrefix + "chunks"
)

// dataKey is where the bytes are.
const dataKey = "objects"

const (
	// chunkSize leaves room for the metadata under the 1 MiB that a Secret may hold.
	chunkSize = 900 << 10
	// MaxSize is the most that one revision may take, compressed.
	MaxSize = 8 << 20
)

// Revision is a healthy revision with its objects.
type Revision struct {
	v1.RevisionDigest
	Objects []*unstructured.Unstructured
}

// Store keeps revisions in the namespace of their Kustomization, with the controller's own rights.
type Store struct {
	// Client reads from and writes to the API server itself.
	Client client.Client
}

// TooLargeError says that a revision can't be stored.
type TooLargeError struct{ Size int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("it takes %.1f MiB compressed, and %d MiB is the limit: split the Kustomization",
		float64(e.Size)/(1<<20), MaxSize>>20)
}

// Save stores a revision and returns the checksum that Load asks for. One that is stored already, undamaged, is left as it is.
func (s *Store) Save(ctx context.Context, ks *v1.Kustomization, r Revision) (sum string, err error) {
	packed, err := encode(r.Objects)
	if err != nil {
		return "", fmt.Errorf("encode revision %s: %w", r.Revision, err)
	}
	if len(packed) > MaxSize {
		return "", &TooLargeError{Size: len(packed)}
	}
	parts, sum := chunks(packed, chunkSize), checksum(packed)
	for i := len(parts) - 1; i >= 0; i-- {
		if err := s.write(ctx, secretOf(ks, r.RevisionDigest, i, len(parts), parts[i], sum)); err != nil {
			return "", fmt.Errorf("store revision %s: %w", r.Revision, err)
		}
	}
	return sum, nil
}

// write creates a Secret, or replaces one of the same name whose content differs. Secrets of revisions are never changed.
func (s *Store) write(ctx context.Context, secret *corev1.Secret) error {
	err := s.Client.Create(ctx, secret.DeepCopy(), client.FieldOwner(v1.StatusManager))
	if !apierrors.IsAlreadyExists(err) {
		return withheld(err)
	}
	there := &corev1.Secret{}
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(secret), there); err != nil {
		return withheld(err)
	}
	if there.Type != SecretType || there.Labels[OwnerLabel] != secret.Labels[OwnerLabel] {
		return fmt.Errorf("the Secret %s/%s is there and is not of this Kustomization: rename or delete it", there.Namespace, there.Name)
	}
	if slices.Equal(there.Data[dataKey], secret.Data[dataKey]) && there.Annotations[sumKey] == secret.Annotations[sumKey] {
		return nil
	}
	if err := s.remove(ctx, there); err != nil {
		return err
	}
	return withheld(s.Client.Create(ctx, secret, client.FieldOwner(v1.StatusManager)))
}

// withheld keeps the words of a refusal out of the error, since they may repeat what the Secret holds.
func withheld(err error) error {
	return execute.Withheld(err, &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}})
}

// Load returns the objects of a stored revision. It fails when a chunk is missing or damaged, and when what is there has another
// checksum than what was stored: whoever may write Secrets beside the Kustomization must not choose what is applied.
func (s *Store) Load(ctx context.Context, ks *v1.Kustomization, want v1.StoredRevision) (Revision, error) {
	first := &corev1.Secret{}
	if err := s.get(ctx, ks, want.Digest, 0, first); err != nil {
		return Revision{}, err
	}
	count, err := strconv.Atoi(first.Annotations[countKey])
	if err != nil || count < 1 || count > MaxSize/chunkSize+1 {
		return Revision{}, fmt.Errorf("the Secret %s/%s is damaged: the annotation %s is wrong", first.Namespace, first.Name, countKey)
	}
	packed := slices.Clone(first.Data[dataKey])
	for i := 1; i < count; i++ {
		part := &corev1.Secret{}
		if err := s.get(ctx, ks, want.Digest, i, part); err != nil {
			return Revision{}, err
		}
		packed = append(packed, part.Data[dataKey]...)
	}
	if want.Checksum == "" {
		return Revision{}, fmt.Errorf("the status has no checksum of the Secret %s/%s: nothing proves what it holds", first.Namespace, first.Name)
	}
	switch checksum(packed) {
	case want.Checksum:
	case first.Annotations[sumKey]:
		return Revision{}, fmt.Errorf("the Secret %s/%s holds other objects than those that were healthy: somebody replaced it", first.Namespace, first.Name)
	default:
		return Revision{}, fmt.Errorf("the Secret %s/%s is damaged: its content does not match its checksum", first.Namespace, first.Name)
	}
	objects, err := decode(packed)
	if err != nil {
		return Revision{}, fmt.Errorf("the Secret %s/%s is damaged: %w", first.Namespace, first.Name, err)
	}
	return Revision{RevisionDigest: recordOf(first), Objects: objects}, nil
}

func (s *Store) get(ctx context.Context, ks *v1.Kustomization, digest string, i int, into *corev1.Secret) error {
	key := client.ObjectKey{Namespace: ks.Namespace, Name: secretName(ks.Name, digest, i)}
	err := s.Client.Get(ctx, key, into)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the stored revision is gone: %w", err)
	case err != nil:
		return fmt.Errorf("read the stored revision: %w", err)
	case into.Type != SecretType || into.Labels[OwnerLabel] != string(ks.UID):
		return fmt.Errorf("the Secret %s/%s does not belong to this Kustomization", key.Namespace, key.Name)
	}
	return nil
}

// Trim deletes the stored revisions of a Kustomization that are not to be kept, by digest, and what is left of half-written
// ones. Only Secrets of this very Kustomization are looked at.
func (s *Store) Trim(ctx context.Context, ks *v1.Kustomization, keep []string) error {
	opts := client.ListOptions{Namespace: ks.Namespace, Limit: page,
		LabelSelector: labels.SelectorFromSet(labels.Set{OwnerLabel: string(ks.UID)})}
	empty := func() *corev1.SecretList { return &corev1.SecretList{} }
	err := paging.Each(ctx, s.Client, opts, empty, func(found *corev1.SecretList) (bool, error) {
		for i := range found.Items {
			secret := &found.Items[i]
			if secret.Type != SecretType || slices.Contains(keep, secret.Annotations[digestKey]) {
				continue
			}
			if err := s.remove(ctx, secret); err != nil {
				return false, err
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("trim stored revisions: %w", err)
	}
	return nil
}

// page is the number of Secrets in one answer: each may have close to a MiB.
const page = 10

func (s *Store) remove(ctx context.Context, secret *corev1.Secret) error {
	err := s.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Secret %s/%s: %w", secret.Namespace, secret.Name, withheld(err))
	}
	return nil
}

func recordOf(first *corev1.Secret) v1.RevisionDigest {
	d := v1.RevisionDigest{Revision: first.Annotations[revisionKey], Digest: first.Annotations[digestKey]}
	if at, err := time.Parse(time.RFC3339, first.Annotations[healthyKey]); err == nil {
		stamp := metav1.NewTime(at)
		d.At = &stamp
	}
	return d
}

func secretOf(ks *v1.Kustomization, d v1.RevisionDigest, i, count int, part []byte, sum string) *corev1.Secret {
	immutable := true
	at := ""
	if d.At != nil {
		at = d.At.UTC().Format(time.RFC3339)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ks.Namespace, Name: secretName(ks.Name, d.Digest, i),
			Labels: map[string]string{OwnerLabel: string(ks.UID)},
			Annotations: map[string]string{
				revisionKey: d.Revision, digestKey: d.Digest, healthyKey: at, sumKey: sum, countKey: strconv.Itoa(count),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1.GroupVersion.String(), Kind: v1.KustomizationKind, Name: ks.Name, UID: ks.UID,
			}},
		},
		Type: SecretType, Immutable: &immutable, Data: map[string][]byte{dataKey: part},
	}
}

// maxName leaves room for the rest of the name of a Secret.
const maxName = 200

// secretName names a chunk. Kustomizations whose names are cut are told apart by a hash of the whole name.
func secretName(name, digest string, i int) string {
	if len(name) > maxName {
		sum := sha256.Sum256([]byte(name))
		name = strings.TrimRight(name[:maxName-9], ".-") + "-" + hex.EncodeToString(sum[:4])
	}
	short := strings.TrimPrefix(digest, "sha256:")
	return fmt.Sprintf("holdfast-%s-%s-%d", name, short[:min(len(short), 16)], i)
}
