package gitrepository

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/holdfast-gitops/holdfast/internal/source/git"
)

// suffixSSH marks the keys of a Secret that hold SSH public keys; the others hold PGP key rings.
const suffixSSH = ".sshpub"

// proof says what was verified of the revision of an artifact.
type proof struct {
	mode    sourcev1.GitVerificationMode
	message string
}

// observedProof is the proof in a status, if it holds for what the spec asks for.
func observedProof(repository *sourcev1.GitRepository) *proof {
	wanted, mode := repository.Spec.Verification, repository.Status.SourceVerificationMode
	c := apimeta.FindStatusCondition(repository.Status.Conditions, sourcev1.SourceVerifiedCondition)
	if wanted == nil || mode == nil || c == nil || c.Reason != meta.SucceededReason {
		return nil
	}
	if *mode != wanted.GetMode() && *mode != sourcev1.ModeGitTagAndHEAD {
		return nil
	}
	return &proof{mode: *mode, message: c.Message}
}

// unverified is the failure of a verification: the condition becomes False.
func unverified(reason string, err error) *failure {
	return &failure{condition: sourcev1.SourceVerifiedCondition, reason: reason, err: err}
}

// verify proves what was fetched, as far as the spec asks for it; no proof when it does not.
func (r *reconciler) verify(ctx context.Context, repository *sourcev1.GitRepository, s *git.Snapshot) (*proof, *failure) {
	spec := repository.Spec.Verification
	if spec == nil {
		return nil, nil
	}
	data, f := r.secret(ctx, repository.Namespace, spec.SecretRef.Name, "spec.verify.secretRef")
	if f != nil {
		return nil, unverified("VerificationError", f.err)
	}
	keys := trusted(data)
	var proved []string
	if spec.VerifyTag() {
		said, f := verifyTag(s, keys)
		if f != nil {
			return nil, f
		}
		proved = append(proved, said)
	}
	if spec.VerifyHEAD() {
		key, err := s.Head.Verify(keys)
		if err != nil {
			return nil, unverified("InvalidCommitSignature", fmt.Errorf("verify the signature of commit '%s': %w; "+
				"nothing of it is used, have it signed or add the key of its author to the Secret of spec.verify.secretRef", s.Head.Name, err))
		}
		proved = append(proved, fmt.Sprintf("commit '%s' with key '%s'", s.Head.Name, key))
	}
	return &proof{mode: spec.GetMode(), message: "verified signature of " + strings.Join(proved, " and ")}, nil
}

func verifyTag(s *git.Snapshot, keys git.Keys) (string, *failure) {
	switch {
	case !s.ByTag:
		f := unverified("InvalidVerificationMode", errors.New("verify the signature of a tag: spec.ref names none; set spec.ref.tag or spec.ref.semver, or spec.verify.mode to HEAD"))
		f.final = true
		return "", f
	case s.Tag == nil:
		return "", unverified("InvalidGitObject", fmt.Errorf("verify the signature of the tag of %s: %w; nothing of it is used, have the tag signed", s.Revision, git.ErrUnsigned))
	}
	key, err := s.Tag.Verify(keys)
	switch {
	case errors.Is(err, git.ErrUnsigned):
		return "", unverified("InvalidGitObject", fmt.Errorf("verify the signature of tag '%s': %w; nothing of it is used, have the tag signed", s.Tag.Name, err))
	case err != nil:
		return "", unverified("InvalidTagSignature", fmt.Errorf("verify the signature of tag '%s': %w; "+
			"nothing of it is used, have it signed or add the key of its author to the Secret of spec.verify.secretRef", s.Tag.Name, err))
	}
	return fmt.Sprintf("tag '%s' with key '%s'", s.Tag.Name, key), nil
}

// trusted are the keys of a Secret.
func trusted(data map[string][]byte) git.Keys {
	var keys git.Keys
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if strings.HasSuffix(name, suffixSSH) {
			keys.SSH = append(keys.SSH, string(data[name]))
		} else {
			keys.PGP = append(keys.PGP, string(data[name]))
		}
	}
	return keys
}
