package git_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"

	"github.com/holdfast-gitops/holdfast/internal/source/git"
	"github.com/holdfast-gitops/holdfast/internal/testkit/gitserver"
)

// pgpKey is a key pair: what signs, and the armored key ring that proves it.
func pgpKey(t *testing.T) (gitserver.Sign, string) {
	t.Helper()
	entity, err := openpgp.NewEntity("test", "", "test@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	var ring bytes.Buffer
	w, err := armor.Encode(&ring, openpgp.PublicKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(entity.Serialize(w), w.Close()); err != nil {
		t.Fatal(err)
	}
	return func(payload []byte) (string, error) {
		var out bytes.Buffer
		err := openpgp.ArmoredDetachSign(&out, entity, bytes.NewReader(payload), nil)
		return out.String(), err
	}, ring.String()
}

// sshKey is a key pair of OpenSSH, which signs with its own program.
func sshKey(t *testing.T) (gitserver.Sign, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path).CombinedOutput(); err != nil {
		t.Fatalf("make an SSH key: %v: %s", err, out)
	}
	public, err := os.ReadFile(path + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return func(payload []byte) (string, error) {
		cmd := exec.Command("ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", path)
		cmd.Stdin = bytes.NewReader(payload)
		out, err := cmd.Output()
		return string(out), err
	}, string(public)
}

// TestSignatures: commits and tags are proved by the keys that are trusted, and by nothing else.
func TestSignatures(t *testing.T) {
	signPGP, ring := pgpKey(t)
	_, otherRing := pgpKey(t)
	signSSH, line := sshKey(t)
	_, otherLine := sshKey(t)
	s509 := func([]byte) (string, error) {
		return "-----BEGIN SIGNED MESSAGE-----\nx\n-----END SIGNED MESSAGE-----", nil
	}
	replayed := func([]byte) (string, error) { return signPGP([]byte("something else")) }

	s := serve(t, nil)
	tests := map[string]struct {
		sign    gitserver.Sign
		keys    git.Keys
		wantErr error
	}{
		"PGP":                 {signPGP, git.Keys{PGP: []string{otherRing, ring}}, nil},
		"SSH":                 {signSSH, git.Keys{SSH: []string{otherLine + line}}, nil},
		"SSH beside PGP":      {signSSH, git.Keys{PGP: []string{ring}, SSH: []string{line}}, nil},
		"unsigned":            {nil, git.Keys{PGP: []string{ring}}, git.ErrUnsigned},
		"another PGP key":     {signPGP, git.Keys{PGP: []string{otherRing}}, git.ErrUntrusted},
		"another SSH key":     {signSSH, git.Keys{SSH: []string{otherLine}}, git.ErrUntrusted},
		"no key of that kind": {signSSH, git.Keys{PGP: []string{ring}}, git.ErrUntrusted},
		"of something else":   {replayed, git.Keys{PGP: []string{ring}}, git.ErrUntrusted},
		"rubbish for a key":   {signPGP, git.Keys{PGP: []string{"s3cr3t"}}, git.ErrUntrusted},
		"X.509":               {s509, git.Keys{PGP: []string{ring}}, git.ErrUnknownScheme},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			branch := strings.ReplaceAll(name, " ", "-")
			sha := commit(t, s, branch, map[string]string{"a.yaml": name})
			if tt.sign != nil {
				var err error
				if sha, err = s.SignHead(repo, branch, tt.sign); err != nil {
					t.Fatal(err)
				}
				if err := s.SignedTag(repo, branch, branch, sha, tt.sign); err != nil {
					t.Fatal(err)
				}
			} else if err := s.AnnotatedTag(repo, branch, sha, "release"); err != nil {
				t.Fatal(err)
			}
			snapshot, _ := fetch(t, remote(t, s.URL(repo), git.Auth{}, nil), git.Reference{Tag: branch})
			if snapshot.Commit != sha || snapshot.Tag == nil {
				t.Fatalf("commit %s, tag %v; want %s and a tag", snapshot.Commit, snapshot.Tag, sha)
			}
			for _, signed := range []*git.Signed{snapshot.Head, snapshot.Tag} {
				key, err := signed.Verify(tt.keys)
				if !errors.Is(err, tt.wantErr) || (key == "") != (err != nil) {
					t.Errorf("%s: key %q, %v; want %v", signed.Name, key, err, tt.wantErr)
				}
				if err != nil && strings.Contains(err.Error(), "s3cr3t") {
					t.Errorf("the message quotes the Secret: %v", err)
				}
			}
		})
	}
}

// TestSignatureOfAnotherTag: a signed tag of an old release is none of a new one.
func TestSignatureOfAnotherTag(t *testing.T) {
	sign, ring := pgpKey(t)
	s := serve(t, nil)
	sha := commit(t, s, "main", map[string]string{"a.yaml": "1"})
	if err := s.SignedTag(repo, "v2.0.0", "v1.0.0", sha, sign); err != nil {
		t.Fatal(err)
	}
	snapshot, _ := fetch(t, remote(t, s.URL(repo), git.Auth{}, nil), git.Reference{SemVer: ">=1.0.0"})
	if _, err := snapshot.Tag.Verify(git.Keys{PGP: []string{ring}}); !errors.Is(err, git.ErrOtherName) {
		t.Errorf("error %v, want %v", err, git.ErrOtherName)
	}
}

func TestWithoutATagThereIsNone(t *testing.T) {
	s := serve(t, nil)
	sha := commit(t, s, "main", map[string]string{"a.yaml": "1"})
	if err := s.Tag(repo, "light", sha); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []git.Reference{{Branch: "main"}, {Tag: "light"}, {Commit: sha}} {
		if snapshot, _ := fetch(t, remote(t, s.URL(repo), git.Auth{}, nil), ref); snapshot.Tag != nil {
			t.Errorf("%s has tag %v", ref, snapshot.Tag)
		}
	}
}
