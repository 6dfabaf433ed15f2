package gitrepository

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-gitops/holdfast/internal/artifact"
	"github.com/holdfast-gitops/holdfast/internal/testkit/gitserver"
)

// files are the paths in an artifact.
func (b *bench) files(a *meta.Artifact) []string {
	b.t.Helper()
	dir := b.t.TempDir()
	if err := artifact.NewReader(artifact.ReaderOptions{}).Fetch(b.t.Context(), a, dir); err != nil {
		b.t.Fatal(err)
	}
	var out []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, relErr := filepath.Rel(dir, path)
			out = append(out, name)
			return relErr
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// wantCondition checks a condition's status and reason, and returns its message.
func wantCondition(t *testing.T, o *sourcev1.GitRepository, kind string, status metav1.ConditionStatus, reason string) string {
	t.Helper()
	c := apimeta.FindStatusCondition(o.Status.Conditions, kind)
	if c == nil || c.Status != status || c.Reason != reason {
		t.Fatalf("condition %s is %+v, want %s %s", kind, c, status, reason)
	}
	return c.Message
}

func TestSparseCheckout(t *testing.T) {
	b := newBench(t)
	b.commit(map[string]string{"apps/a.yaml": "1", "apps-old/b.yaml": "2", "infra/c.yaml": "3"}, "first")
	b.create(func(o *sourcev1.GitRepository) { o.Spec.SparseCheckout = []string{"./apps", "infra"} })
	o := b.settle()
	if got := b.files(o.Status.Artifact); !slices.Equal(got, []string{"apps/a.yaml", "infra/c.yaml"}) {
		t.Errorf("files %v", got)
	}
	if !slices.Equal(o.Status.ObservedSparseCheckout, o.Spec.SparseCheckout) {
		t.Errorf("observed %v", o.Status.ObservedSparseCheckout)
	}
	_, packs := b.git.Requests()
	b.settle()
	if _, now := b.git.Requests(); now != packs {
		t.Error("what did not change was fetched again")
	}
	b.update(func(o *sourcev1.GitRepository) { o.Spec.SparseCheckout = []string{"infra"} })
	if got := b.files(b.settle().Status.Artifact); !slices.Equal(got, []string{"infra/c.yaml"}) {
		t.Errorf("files %v after a change of the spec", got)
	}
	b.update(func(o *sourcev1.GitRepository) { o.Spec.SparseCheckout = []string{"gone"} })
	if result, err := b.reconcile(); err != nil || result.RequeueAfter != time.Minute {
		t.Errorf("result %v, %v; want the interval", result, err)
	}
	if said := wantCondition(t, b.get(), sourcev1.FetchFailedCondition, metav1.ConditionTrue, sourcev1.GitOperationFailedReason); !strings.Contains(said, `"gone"`) {
		t.Errorf("message %q", said)
	}
}

func TestRecurseSubmodules(t *testing.T) {
	b := newBench(t)
	if err := b.git.CreateRepository("lib.git"); err != nil {
		t.Fatal(err)
	}
	lib, err := b.git.Commit("lib.git", "main", map[string]string{"lib.yaml": "1"}, "lib")
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.git.CommitChange(repo, gitserver.Change{
		Branch: "main", Submodules: map[string]string{"lib": lib},
		Files: map[string]string{"a.yaml": "1", ".gitmodules": "[submodule \"lib\"]\n\tpath = lib\n\turl = ../lib.git\n"},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.create(nil)
	if got := b.files(b.settle().Status.Artifact); !slices.Equal(got, []string{"a.yaml"}) {
		t.Errorf("files %v, want those of the repository", got)
	}
	b.update(func(o *sourcev1.GitRepository) { o.Spec.RecurseSubmodules = true })
	o := b.settle()
	if got := b.files(o.Status.Artifact); !slices.Equal(got, []string{"a.yaml", "lib/lib.yaml"}) || !o.Status.ObservedRecurseSubmodules {
		t.Errorf("files %v, observed %v; want those of the submodule too", got, o.Status.ObservedRecurseSubmodules)
	}
}

// TestInclude: what another source published is part of the artifact, and of what makes a new one.
func TestInclude(t *testing.T) {
	b := newBench(t)
	b.commit(map[string]string{"a.yaml": "1"}, "first")
	b.create(func(o *sourcev1.GitRepository) {
		o.Spec.Include = []sourcev1.GitRepositoryInclude{{GitRepositoryRef: meta.LocalObjectReference{Name: "lib"}, FromPath: "deploy", ToPath: "./vendor/lib"}}
	})
	wantUnavailable := func(reason, text string) {
		t.Helper()
		result, err := b.reconcile()
		if err != nil || result.RequeueAfter != 3*time.Second {
			t.Errorf("result %v, %v; want the dependency interval", result, err)
		}
		said := wantCondition(t, b.get(), sourcev1.IncludeUnavailableCondition, metav1.ConditionTrue, reason)
		wantCondition(t, b.get(), meta.ReadyCondition, metav1.ConditionFalse, reason)
		if !strings.Contains(said, "ns/lib") || !strings.Contains(said, text) {
			t.Errorf("message %q", said)
		}
	}
	wantUnavailable("NotFound", "create it")
	lib := &sourcev1.GitRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lib"}}
	if err := b.client.Create(t.Context(), lib); err != nil {
		t.Fatal(err)
	}
	wantUnavailable("NoArtifact", "no artifact yet")

	offer := func(revision, slot string, files map[string]string) {
		t.Helper()
		tree := artifact.NewTree()
		for name, content := range files {
			if err := tree.Add(name, artifact.TextEntry(content)); err != nil {
				t.Fatal(err)
			}
		}
		listed, err := tree.Files(artifact.Ignore{})
		if err != nil {
			t.Fatal(err)
		}
		place := artifact.Slot{Kind: sourcev1.GitRepositoryKind, Namespace: "ns", Name: slot}
		lib.Status.Artifact, err = b.store.Publish(t.Context(), artifact.Publication{Slot: place, Name: revision, Revision: revision, Files: listed})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.client.Status().Update(t.Context(), lib); err != nil {
			t.Fatal(err)
		}
	}
	offer("1", "elsewhere", map[string]string{"deploy/lib.yaml": "1"})
	wantUnavailable("NoArtifact", "another source")
	offer("1", "lib", map[string]string{"deploy/lib.yaml": "1", "README": "1"})
	o := b.settle()
	if got := b.files(o.Status.Artifact); !slices.Equal(got, []string{"a.yaml", "vendor/lib/lib.yaml"}) {
		t.Errorf("files %v", got)
	}
	if len(o.Status.IncludedArtifacts) != 1 || len(o.Status.ObservedInclude) != 1 {
		t.Errorf("status %+v", o.Status)
	}
	_, packs := b.git.Requests()
	b.settle()
	if _, now := b.git.Requests(); now != packs {
		t.Error("what did not change was fetched again")
	}
	offer("2", "lib", map[string]string{"deploy/new.yaml": "1"})
	if got := b.files(b.settle().Status.Artifact); !slices.Equal(got, []string{"a.yaml", "vendor/lib/new.yaml"}) {
		t.Errorf("files %v after the included source changed", got)
	}
	offer("3", "lib", map[string]string{"elsewhere/new.yaml": "1"})
	if _, err := b.reconcile(); err == nil || !strings.Contains(err.Error(), `"deploy"`) {
		t.Errorf("error %v, want the path that is missing", err)
	}
	wantCondition(t, b.get(), sourcev1.StorageOperationFailedCondition, metav1.ConditionTrue, "CopyFailure")
	if left, err := os.ReadDir(b.tempDir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestVerify: what is not signed by a trusted key is not published, and the condition says so.
func TestVerify(t *testing.T) {
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
	sign := func(payload []byte) (string, error) {
		var out bytes.Buffer
		err := openpgp.ArmoredDetachSign(&out, entity, bytes.NewReader(payload), nil)
		return out.String(), err
	}
	b := newBench(t)
	first := b.commit(map[string]string{"a.yaml": "1"}, "first")
	b.create(nil)
	former := b.settle().Status.Artifact

	b.update(func(o *sourcev1.GitRepository) {
		o.Spec.Verification = &sourcev1.GitRepositoryVerification{Mode: "HEAD", SecretRef: meta.LocalObjectReference{Name: "authors"}}
	})
	wantUnverified := func(reason string) {
		t.Helper()
		if _, err := b.reconcile(); err == nil {
			t.Fatal("no error, so no back-off")
		}
		o := b.get()
		wantCondition(t, o, sourcev1.SourceVerifiedCondition, metav1.ConditionFalse, reason)
		wantCondition(t, o, meta.ReadyCondition, metav1.ConditionFalse, reason)
		if o.Status.Artifact.Digest != former.Digest {
			t.Errorf("artifact %+v, want the former one", o.Status.Artifact)
		}
	}
	wantUnverified("VerificationError")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "authors"}, Data: map[string][]byte{"author.asc": ring.Bytes(), "bot.sshpub": []byte("# none yet")}}
	if err := b.client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	wantUnverified("InvalidCommitSignature")

	signed, err := b.git.SignHead(repo, "main", sign)
	if err != nil {
		t.Fatal(err)
	}
	o := b.settle()
	if said := wantCondition(t, o, sourcev1.SourceVerifiedCondition, metav1.ConditionTrue, meta.SucceededReason); !strings.Contains(said, "commit '"+signed+"' with key '") {
		t.Errorf("message %q", said)
	}
	if *o.Status.SourceVerificationMode != sourcev1.ModeGitHEAD || o.Status.Artifact.Revision != "main@sha1:"+signed {
		t.Errorf("status %+v", o.Status)
	}
	_, packs := b.git.Requests()
	b.settle()
	if _, now := b.git.Requests(); now != packs {
		t.Error("what was verified was fetched again")
	}

	former = o.Status.Artifact
	b.update(func(o *sourcev1.GitRepository) { o.Spec.Verification.Mode = "TagAndHEAD" })
	if result, err := b.reconcile(); err != nil || result.RequeueAfter != 0 {
		t.Errorf("result %v, %v; want no other attempt: the spec names no tag", result, err)
	}
	wantCondition(t, b.get(), meta.StalledCondition, metav1.ConditionTrue, "InvalidVerificationMode")
	if err := b.git.AnnotatedTag(repo, "v1.0.0", first, "release"); err != nil {
		t.Fatal(err)
	}
	b.update(func(o *sourcev1.GitRepository) { o.Spec.Reference = &sourcev1.GitRepositoryRef{SemVer: "1.x"} })
	wantUnverified("InvalidGitObject")
	if err := b.git.SignedTag(repo, "v1.0.1", "v1.0.0", signed, sign); err != nil {
		t.Fatal(err)
	}
	wantUnverified("InvalidTagSignature")
	if err := b.git.SignedTag(repo, "v1.0.2", "v1.0.2", signed, sign); err != nil {
		t.Fatal(err)
	}
	o = b.settle()
	said := wantCondition(t, o, sourcev1.SourceVerifiedCondition, metav1.ConditionTrue, meta.SucceededReason)
	if !strings.Contains(said, "tag 'v1.0.2@") || !strings.Contains(said, "commit '"+signed) || *o.Status.SourceVerificationMode != sourcev1.ModeGitTagAndHEAD {
		t.Errorf("message %q, mode %s", said, *o.Status.SourceVerificationMode)
	}
	b.update(func(o *sourcev1.GitRepository) { o.Spec.Verification = nil })
	o = b.settle()
	if apimeta.FindStatusCondition(o.Status.Conditions, sourcev1.SourceVerifiedCondition) != nil || o.Status.SourceVerificationMode != nil {
		t.Errorf("status %+v, want nothing of a verification", o.Status)
	}
}
