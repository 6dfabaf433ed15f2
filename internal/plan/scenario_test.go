package plan_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/policy"
)

var update = flag.Bool("update", false, "write what the scenarios print into testdata")

// TestScenarios tells the stories in testdata. Each line that begins with "> " is a command, and the lines below it are
// what it prints:
//
//	build REVISION OBJECT...   build, record and apply these objects
//	empty REVISION             build a path that holds no manifests
//	source REVISION            the source has a newer revision
//	health good|busy|failed    what the health checks say from now on
//	prune on|off               set spec.prune
//	order ORDER, retain RETAIN set the policy
//	max LIMIT                  set maxPrune
//	soak DURATION              set how long a build has to stay healthy
//	rule RULE...               set the rules, as KIND[/NAME]=WHEN; none without
//	use OBJECT USER...         the object has these users; none without
//	past OBJECT USER...        these refer to the object in the history; none without
//	confirm [DIGEST]           a person confirms what the last step showed, or repeats a digest; print the digest
//	release [DIGEST]           a person lets go of what the last step showed, or repeats a digest; print the digest
//	set OBJECT KEY=VALUE...    change a live object: unread, unlisted, denied, owner, when, disabled, finalizers; empty undoes
//	gone OBJECT                the object goes
//	wait DURATION              time passes
//	remove                     the Kustomization is deleted
//	dependent NAME...          these depend on it, as NAME or NAME:suspended; none without
//	step                       plan once, print the plan and carry it out
//	farewell [wait]            print whether the Kustomization may go
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios:", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(script))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(script) {
				t.Errorf("%s tells another story now (-update writes it, review the difference):\n%s", file, got)
			}
		})
	}
}

// play runs the commands of a script and returns it with what they print.
func play(t *testing.T, script string) string {
	var out strings.Builder
	w := newWorld()
	for line := range strings.Lines(script) {
		switch command, ok := strings.CutPrefix(strings.TrimSpace(line), "> "); {
		case ok:
			out.WriteString(line)
			out.WriteString(w.do(t, strings.Fields(command)))
		case strings.HasPrefix(line, "#"), strings.TrimSpace(line) == "":
			out.WriteString(line)
		}
	}
	return out.String()
}

func (w *world) do(t *testing.T, words []string) string {
	t.Helper()
	args := words[1:]
	switch words[0] {
	case "build":
		w.empty = false
		w.build(args[0], ids(args[1:])...)
	case "empty":
		w.empty = true
		w.build(args[0])
	case "source":
		w.newest = args[0]
	case "health":
		w.verdict = map[string]plan.Verdict{"good": plan.Healthy, "busy": plan.InProgress, "failed": plan.Failed}[args[0]]
	case "prune":
		w.policy.Prune = args[0] == "on"
	case "order":
		w.policy.Order = v1.PruneOrder(args[0])
	case "retain":
		w.policy.Retain = v1.RetainPolicy(args[0])
	case "use":
		w.thing(t, args[0]).users = args[1:]
	case "set":
		w.set(t, w.thing(t, args[0]), args[1:])
	case "past":
		w.thing(t, args[0]).past = args[1:]
	case "soak":
		w.soak = duration(t, args[0])
	case "max":
		w.policy.Max = limit(args[0])
	case "rule":
		w.policy.Rules = rules(t, args)
	case "confirm":
		w.word = plan.Digest(w.rollout.Retained)
		if len(args) > 0 {
			w.word = args[0]
		}
		return "confirmed " + w.word + "\n"
	case "release":
		w.release = plan.ReleaseDigest(w.rollout.Retained)
		if len(args) > 0 {
			w.release = args[0]
		}
		return "released " + w.release + "\n"
	case "gone":
		delete(w.live, id(args[0]))
	case "wait":
		w.now = w.now.Add(duration(t, args[0]))
	case "remove":
		w.deletedAt = w.now
	case "dependent":
		w.dependents = nil
		for _, arg := range args {
			name, state, _ := strings.Cut(arg, ":")
			s := relative(name, "shop")
			s.Suspended = state == "suspended"
			w.dependents = append(w.dependents, s)
		}
	case "step":
		p := w.step()
		if w.finalizing() {
			return printPlan(p)
		}
		return fmt.Sprintf("%s %s\n", w.rollout.Wanted.Revision, w.rollout.Phase) + printPlan(p)
	case "farewell":
		f := w.facts()
		p := plan.Prune(f)
		bye := plan.Finalize(f, p, w.deletedAt, len(args) > 0)
		out := fmt.Sprintf("may go: %t\n", bye.MayGo(p))
		for _, r := range bye.Left {
			out += fmt.Sprintf("leaves %s %s\n", spell(r.ID), r.Reason)
		}
		return out
	default:
		t.Fatalf("unknown command %q", words)
	}
	return ""
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func rules(t *testing.T, args []string) []v1.PruneRule {
	t.Helper()
	ks := &v1.Kustomization{}
	ks.Annotations = map[string]string{v1.AnnotationPrune: strings.Join(args, ",")}
	p, problems := policy.Resolve(ks, policy.Defaults{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p.Rules
}

func ids(names []string) []object.ID {
	var list []object.ID
	for _, name := range names {
		list = append(list, id(name))
	}
	return list
}

func (w *world) thing(t *testing.T, name string) *thing {
	t.Helper()
	if w.live[id(name)] == nil {
		t.Fatalf("%s does not exist", name)
	}
	return w.live[id(name)]
}

func (w *world) set(t *testing.T, live *thing, args []string) {
	t.Helper()
	w.writes++
	live.ResourceVersion = fmt.Sprint(w.writes)
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		value = strings.ReplaceAll(value, "_", " ")
		switch key {
		case "unread":
			live.unread = value
		case "unlisted":
			live.unlisted = value
		case "denied":
			live.denied = value
		case "when":
			live.When = v1.PruneWhen(value)
		case "owner":
			live.OwnerName = value
		case "disabled":
			live.DisabledBy = value
		case "finalizers":
			live.finalizers = strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
		default:
			t.Fatalf("unknown key %q", key)
		}
	}
}
