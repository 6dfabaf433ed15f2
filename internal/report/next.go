package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// maxNextKept bounds the hints about kept objects.
const maxNextKept = 2

// next are steps that exist and fit the cause.
func (a *KustomizationAnswer) next(ks *v1.Kustomization) []string {
	steps := a.nextOfState(ks)
	if len(a.Absent) > 0 && a.expectsAll() {
		steps = append(steps, fmt.Sprintf("it is applied again every %s; at once with: %s", ks.Spec.Interval.Duration, applyNow(ks)))
	}
	for i, r := range a.Retained {
		if i == maxNextKept {
			break
		}
		steps = append(steps, whyCommand(r))
	}
	return steps
}

// nextOfState are the steps that the state asks for.
func (a *KustomizationAnswer) nextOfState(ks *v1.Kustomization) []string {
	switch a.Kustomization.State {
	case RolledBack:
		return []string{pushFix, command("retry", ks) + "   the same revision once more", command("history", ks) + "   what ran when"}
	case Pinned:
		return []string{command("release", ks) + "   Git's revision is taken again"}
	case Held:
		return []string{pushFix, "the same revision is applied again every " + ks.Flux().GetRetryInterval().String() +
			", and becomes healthy by itself if it recovers"}
	case Verifying:
		return []string{pushFix}
	case Refused:
		return nextRefused(ks)
	case NeedsConfirmation:
		return a.nextConfirmation(ks)
	case Paused:
		if !ks.Spec.Suspend {
			return []string{command("release", ks) + "   ends the pause: the revision of the source is taken up at once"}
		}
		return []string{command("resume", ks) + "   the revision of the source is taken up at once"}
	case Waiting:
		return a.nextWaiting(ks)
	case Applying:
		if ready := readyOf(ks); ready != nil && ready.Status == metav1.ConditionTrue {
			return []string{lookForController(ks)}
		}
	default:
		// On its way, or there: nothing to do.
	}
	return nil
}

// command is a command of holdfast about a Kustomization.
func command(verb string, ks *v1.Kustomization) string {
	return fmt.Sprintf("holdfast %s %s -n %s", verb, ks.Name, ks.Namespace)
}

const (
	resource = "kustomizations.kustomize.toolkit.fluxcd.io"
	pushFix  = "push a fix: it is taken at once, nothing has to be stopped first"
)

// applyNow is the command that asks for a pass now, in whose course everything is applied again.
func applyNow(ks *v1.Kustomization) string {
	return command("reconcile", ks)
}

// expectsAll tells whether everything that is wanted was applied, so that what is not there was taken away.
func (a *KustomizationAnswer) expectsAll() bool {
	return slices.Contains([]State{Healthy, RolledBack, Pinned, Held, Verifying, Pruning, NeedsConfirmation}, a.Kustomization.State)
}

func (a *KustomizationAnswer) nextConfirmation(ks *v1.Kustomization) []string {
	var steps []string
	if isStalled(ks) {
		steps = append(steps, "add manifests to the path again, or a kustomization.yaml with `resources: []` to empty it on purpose")
	}
	return append(steps, fmt.Sprintf("holdfast confirm %s -n %s --plan   what would be deleted, and how to allow it", ks.Name, ks.Namespace))
}

// remedy is what helps against what a message says.
type remedy struct {
	says *regexp.Regexp
	step func(ks *v1.Kustomization, match []string) string
}

// remedies are looked through in this order; the first that fits is taken.
var remedies = []remedy{
	{regexp.MustCompile(`kustomization path not found`), func(ks *v1.Kustomization, _ []string) string {
		return fmt.Sprintf("correct spec.path, which is %q, or push a commit that has it", ks.Spec.Path)
	}},
	{regexp.MustCompile(`namespaces? "([^"]+)" not found`), func(_ *v1.Kustomization, m []string) string {
		return fmt.Sprintf("create the namespace (kubectl create namespace %s), add it to the source, or correct the one that is named", m[1])
	}},
	{regexp.MustCompile(`(?i)immutable|may not change once set|updates to \S+ spec for fields other than`), func(*v1.Kustomization, []string) string {
		return "that field can't be changed in place; to delete the object and create it anew, set spec.force: true, " +
			"or on that object alone the annotation kustomize.toolkit.fluxcd.io/force: enabled"
	}},
	{regexp.MustCompile(`(?:no matches for|serves no) kind "?(\w+)`), func(_ *v1.Kustomization, m []string) string {
		return fmt.Sprintf("the cluster does not serve kind %s: correct its apiVersion, or install its CRD, in the source or by a Kustomization in spec.dependsOn", m[1])
	}},
	{regexp.MustCompile(`(?i)patch`), func(ks *v1.Kustomization, _ []string) string {
		if len(ks.Spec.Patches) == 0 {
			return ""
		}
		return "correct spec.patches, or push a commit with what they change"
	}},
}

// nextRefused is what helps against what was refused.
func nextRefused(ks *v1.Kustomization) []string {
	message := ""
	if ready := readyOf(ks); ready != nil {
		message = ready.Message
	}
	for _, r := range remedies {
		if m := r.says.FindStringSubmatch(message); m != nil {
			if step := r.step(ks, m); step != "" {
				return []string{step, triedAgain(ks)}
			}
		}
	}
	if isStalled(ks) {
		return []string{"change the spec as the message says: it is taken at once"}
	}
	return []string{"push a fix: it is taken at once", triedAgain(ks)}
}

func triedAgain(ks *v1.Kustomization) string {
	if isStalled(ks) {
		return "a changed spec is taken at once"
	}
	return fmt.Sprintf("the same revision is tried again every %s; a new commit or a changed spec at once", ks.Flux().GetRetryInterval())
}

func (a *KustomizationAnswer) nextWaiting(ks *v1.Kustomization) []string {
	switch {
	case len(a.Circle) > 0:
		return []string{"break the circle: take one of them out of spec.dependsOn of another"}
	case a.Root != nil && a.Root.Key() != a.Kustomization.Key():
		return []string{fmt.Sprintf("holdfast why %s -n %s", a.Root.Name, a.Root.Namespace)}
	case len(a.Chain) > 0:
		return []string{"create Kustomization " + a.Chain[len(a.Chain)-1] + ", or correct spec.dependsOn"}
	case ks.Spec.SourceRef.Kind != sourcev1.GitRepositoryKind && a.Message != "":
		ref := ks.Spec.SourceRef
		return []string{fmt.Sprintf("kubectl describe %s.%s %s -n %s   what the controller of this source says",
			strings.ToLower(ref.Kind), sourcev1.GroupVersion.Group, ref.Name, orElse(ref.Namespace, ks.Namespace))}
	case a.Source != nil && a.Source.State != Healthy:
		return []string{fmt.Sprintf("mend %s %s/%s: %s", a.Source.Kind, a.Source.Namespace, a.Source.Name, orElse(a.Source.Why, a.Source.State.lower()))}
	case a.SourceTrouble != "":
		return []string{"create it, or correct spec.sourceRef"}
	case a.Message == "":
		return []string{lookForController(ks)}
	}
	return nil
}

func lookForController(ks *v1.Kustomization) string {
	return "if this stays: see whether a controller runs and looks at namespace " + ks.Namespace + ": `holdfast run --help`, `holdfast install --help`"
}

// circleText draws a circle: a -> b -> a.
func circleText(circle []string) string {
	return strings.Join(append(append([]string{}, circle...), circle[0]), " -> ")
}
