package gitrepository

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-gitops/holdfast/internal/source/git"
)

// shorthand for conditions: type -> "Status Reason".
func shown(conditions []metav1.Condition) map[string]string {
	out := map[string]string{}
	for _, c := range conditions {
		out[c.Type] = string(c.Status) + " " + c.Reason
	}
	return out
}

func artifactOf(revision string) *meta.Artifact {
	return &meta.Artifact{Revision: revision, Path: "gitrepository/ns/app/x.tar.gz", Digest: "sha256:x"}
}

var (
	good      = outcome{artifact: artifactOf("main@sha1:1"), stored: true}
	errBroken = errors.New("broken")
)

// statusCases are outcomes in a row, and the conditions that the last one leaves.
var statusCases = map[string]struct {
	before []outcome
	last   outcome
	want   map[string]string
}{
	"success": {
		last: good,
		want: map[string]string{"Ready": "True Succeeded", "ArtifactInStorage": "True Succeeded"},
	},
	"first fetch fails": {
		last: outcome{}.failed(fetchFailed("GitOperationFailed", errBroken)),
		want: map[string]string{
			"Ready": "False GitOperationFailed", "FetchFailed": "True GitOperationFailed", "Reconciling": "True ProgressingWithRetry",
		},
	},
	"a fetch fails while an artifact is stored": {
		before: []outcome{good},
		last:   good.failed(fetchFailed("AuthenticationFailed", errBroken)),
		want: map[string]string{
			"Ready": "False AuthenticationFailed", "FetchFailed": "True AuthenticationFailed",
			"Reconciling": "True ProgressingWithRetry", "ArtifactInStorage": "True Succeeded",
		},
	},
	"a fetch fails and the artifact is lost": {
		before: []outcome{good},
		last:   outcome{artifact: good.artifact}.failed(fetchFailed("GitOperationFailed", errBroken)),
		want: map[string]string{
			"Ready": "False GitOperationFailed", "FetchFailed": "True GitOperationFailed", "Reconciling": "True ProgressingWithRetry",
		},
	},
	"invalid URL": {
		last: outcome{}.failed(gitFailed(&git.Error{Reason: git.ReasonURLInvalid, Err: errBroken})),
		want: map[string]string{"Ready": "False URLInvalid", "FetchFailed": "True URLInvalid", "Stalled": "True URLInvalid"},
	},
	"field not supported": {
		before: []outcome{good.failed(fetchFailed("GitOperationFailed", errBroken))},
		last:   good.failed(checkSpec(sourcev1.GitRepositorySpec{Provider: "gcp"})),
		want: map[string]string{
			"Ready": "False FieldNotSupported", "Stalled": "True FieldNotSupported", "ArtifactInStorage": "True Succeeded",
		},
	},
	"links refused": {
		before: []outcome{good},
		last:   good.failed(buildFailed(errBroken)),
		want: map[string]string{
			"Ready": "False BuildFailed", "BuildFailed": "True BuildFailed", "Reconciling": "True ProgressingWithRetry",
			"ArtifactInStorage": "True Succeeded",
		},
	},
	"storage fails": {
		last: outcome{}.failed(storageFailed("ArchiveOperationFailed", errBroken)),
		want: map[string]string{
			"Ready": "False ArchiveOperationFailed", "StorageOperationFailed": "True ArchiveOperationFailed",
			"Reconciling": "True ProgressingWithRetry",
		},
	},
	"recovery clears everything abnormal": {
		before: []outcome{
			good.failed(storageFailed("ArchiveOperationFailed", errBroken)),
			good.failed(gitFailed(&git.Error{Reason: git.ReasonURLInvalid, Err: errBroken})),
			good.failed(buildFailed(errBroken)),
		},
		last: good,
		want: map[string]string{"Ready": "True Succeeded", "ArtifactInStorage": "True Succeeded"},
	},
}

func TestStatusOf(t *testing.T) {
	for name, tt := range statusCases {
		t.Run(name, func(t *testing.T) {
			var status sourcev1.GitRepositoryStatus
			for _, o := range tt.before {
				status = statusOf(status, observation{generation: 1, now: time.Unix(1, 0)}, o)
			}
			status = statusOf(status, observation{generation: 2, now: time.Unix(2, 0)}, tt.last)
			if got := shown(status.Conditions); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("conditions %v, want %v", got, tt.want)
			}
			if status.ObservedGeneration != 2 || status.Artifact != tt.last.artifact {
				t.Errorf("generation %d, artifact %v", status.ObservedGeneration, status.Artifact)
			}
			for _, c := range status.Conditions {
				if c.ObservedGeneration != 2 {
					t.Errorf("condition %s is of generation %d", c.Type, c.ObservedGeneration)
				}
			}
		})
	}
}

func TestStatusMessage(t *testing.T) {
	status := statusOf(sourcev1.GitRepositoryStatus{}, observation{}, outcome{artifact: artifactOf("main@sha1:1"), stored: true})
	for _, kind := range []string{meta.ReadyCondition, sourcev1.ArtifactInStorageCondition} {
		c := apimeta.FindStatusCondition(status.Conditions, kind)
		if c == nil || c.Message != "stored artifact for revision 'main@sha1:1'" {
			t.Errorf("condition %s: %+v", kind, c)
		}
	}
}

// TestStatusOfNoChange: a resync that finds nothing new changes nothing, whatever the time, unless it was asked for.
func TestStatusOfNoChange(t *testing.T) {
	o := outcome{artifact: artifactOf("main@sha1:1"), stored: true}
	first := statusOf(sourcev1.GitRepositoryStatus{}, observation{generation: 1, requestedAt: "a", now: time.Unix(1, 0)}, o)
	again := statusOf(first, observation{generation: 1, requestedAt: "a", now: time.Unix(9, 0)}, o)
	if !reflect.DeepEqual(first, again) {
		t.Errorf("status changed from %+v to %+v", first, again)
	}
	asked := statusOf(first, observation{generation: 1, requestedAt: "b", now: time.Unix(9, 0)}, o)
	if asked.LastHandledReconcileAt != "b" {
		t.Errorf("last handled request %q, want b", asked.LastHandledReconcileAt)
	}
	failed := statusOf(first, observation{generation: 1, requestedAt: "c"}, o.failed(fetchFailed("x", errors.New("y"))))
	if failed.LastHandledReconcileAt != "c" {
		t.Errorf("last handled request %q after a failure, want c", failed.LastHandledReconcileAt)
	}
}

func TestEventOf(t *testing.T) {
	fresh := good
	fresh.published = &published{files: 3, commit: "abc", subject: "add things"}
	bad := good.failed(fetchFailed("GitOperationFailed", errors.New("broken")))
	worse := good.failed(fetchFailed("GitOperationFailed", errors.New("more broken")))
	after := func(o outcome) []metav1.Condition {
		return statusOf(sourcev1.GitRepositoryStatus{}, observation{}, o).Conditions
	}
	tests := map[string]struct {
		old  []metav1.Condition
		o    outcome
		want string
	}{
		"new artifact":   {after(good), fresh, "Normal NewArtifact stored artifact with 3 files from commit 'add things'"},
		"nothing new":    {after(good), good, ""},
		"failure":        {after(good), bad, "Warning GitOperationFailed broken"},
		"same failure":   {after(bad), bad, ""},
		"other failure":  {after(bad), worse, "Warning GitOperationFailed more broken"},
		"recovery":       {after(bad), good, "Normal Succeeded stored artifact for revision 'main@sha1:1'"},
		"first of all":   {nil, fresh, "Normal NewArtifact stored artifact with 3 files from commit 'add things'"},
		"first, failure": {nil, bad, "Warning GitOperationFailed broken"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if e := eventOf(tt.old, tt.o); e != nil {
				got = e.kind + " " + e.reason + " " + e.message
			}
			if got != tt.want {
				t.Errorf("event %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSpread(t *testing.T) {
	tests := map[string]struct {
		percentage int
		chance     float64
		want       time.Duration
	}{
		"none":     {0, 0.9, time.Minute},
		"earliest": {10, 0, 54 * time.Second},
		"middle":   {10, 0.5, time.Minute},
		"latest":   {10, 1, 66 * time.Second},
	}
	for name, tt := range tests {
		if got := spread(time.Minute, tt.percentage, tt.chance); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
