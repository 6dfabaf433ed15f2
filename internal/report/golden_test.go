package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/report"
	"github.com/holdfast-gitops/holdfast/internal/rival"
)

// update rewrites the golden files: go test ./internal/report -update, then review the diff.
var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// now is the time of every answer in these tests.
var now = time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)

type text interface {
	WriteText(io.Writer, report.TextOptions) error
}

func TestText(t *testing.T) {
	all := fleet()
	status := report.StatusOf(all, sources(), nil)
	tests := map[string]struct {
		answer  text
		options report.TextOptions
	}{
		"status_all":         {answer: status, options: report.TextOptions{Namespaces: true}},
		"status_wide":        {answer: status, options: report.TextOptions{Namespaces: true, Wide: true, NoHeaders: true}},
		"status_not_healthy": {answer: status.NotHealthy()},
		"status_none":        {answer: report.StatusOf(nil, nil, nil)},
		"status_rights": {answer: report.StatusOf(all[:1], nil,
			[]string{"the right to list gitrepositories in namespace team is missing: sources are not shown"})},
		"why_kept":            {answer: about(all, cm("shop-config-old"), "team/shop", nil)},
		"why_in_use":          {answer: about(all, cm("infra-config-old"), "team/infra", nil)},
		"why_wanted":          {answer: about(all, cm("shop-config-new"), "team/shop", []string{"Deployment/team/shop"})},
		"why_foreign":         {answer: about(all, cm("shop-config-new"), "team/infra", nil)},
		"why_unmanaged":       {answer: about(all, cm("stray"), "", nil)},
		"why_left_behind":     {answer: about(all, cm("stray"), "team/gone", nil)},
		"why_verifying":       {answer: whyKustomization(all, "shop")},
		"why_held":            {answer: whyKustomization(all, "held")},
		"why_waiting":         {answer: whyKustomization(all, "checkout")},
		"why_paused":          {answer: whyKustomization(all, "paused")},
		"why_refused":         {answer: whyKustomization(all, "refused")},
		"why_healthy_keeping": {answer: whyKustomization(all, "infra")},
		"takeover":            {answer: report.TakeoverOf(leftByFlux(), now)},
		"takeover_ready": {answer: report.TakeoverOf(report.TakeoverFacts{Kustomizations: leftByFlux().Kustomizations[2:], Definition: report.DefinitionOwn,
			Missing: []string{"the right to list deployments in all namespaces is missing: whether Flux is installed is not known"}}, now)},
		"handback": {answer: report.HandbackOf(report.HandbackFacts{Kustomizations: []v1.Kustomization{keeping(v1.RetainedInUse)}, Revisions: 2})},
		"handback_ready": {answer: report.HandbackOf(report.HandbackFacts{Kustomizations: []v1.Kustomization{keeping("")}, Definition: report.DefinitionOwn,
			Own: []string{"flux-system/holdfast-7f_1"}, Workloads: []report.Workload{{Controller: rival.KustomizeController, Stopped: true,
				ID: object.ID{Group: "apps", Kind: "Deployment", Namespace: "flux-system", Name: "kustomize-controller"}}}})},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.options.Now = now
			var got bytes.Buffer
			if err := test.answer.WriteText(&got, test.options); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", got.Bytes())
		})
	}
}

// The JSON is what other programs read: a field that changes its name shows up here.
func TestJSON(t *testing.T) {
	all := fleet()
	for name, answer := range map[string]any{
		"status":        report.StatusOf(all, sources(), nil),
		"why_kept":      about(all, cm("shop-config-old"), "team/shop", []string{"ReplicaSet/team/shop-1 (3 pods)"}),
		"why_verifying": whyKustomization(all, "shop"),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.MarshalIndent(answer, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".json", append(got, '\n'))
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run the test with -update to write it", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

// about is the answer about an object with the given owner labels.
func about(all []v1.Kustomization, id object.ID, owner string, users []string) report.ObjectAnswer {
	seen := report.SeenObject{ID: id, Exists: true, Meta: labelled(owner), Looked: true, Users: users}
	return report.ObjectAnswerOf(seen, all, nil, true, nil)
}

func whyKustomization(all []v1.Kustomization, name string) report.KustomizationAnswer {
	seen := report.SeenKustomization{Sources: report.StatusOf(nil, sources(), nil).Sources}
	for i := range all {
		if all[i].Name == name {
			seen.Kustomization = &all[i]
			continue
		}
		seen.Others = append(seen.Others, all[i])
	}
	if name == "shop" {
		seen.Pods = map[string][]report.PodTrouble{"Deployment/team/shop": {{
			Pod: "shop-2-abcde", Container: "shop", Reason: "ImagePullBackOff", Message: `Back-off pulling image "shop:2"`,
		}}}
		seen.Safe = []report.Safe{{Workload: "Deployment/team/shop", ReadyOldPods: 3, ReadyPods: 3, Wanted: 3}}
	}
	return report.KustomizationAnswerOf(seen)
}

func cm(name string) object.ID { return object.ID{Kind: "ConfigMap", Namespace: "team", Name: name} }
