package usage

import (
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Live are the objects of the cluster that may be users, in any order: all of UserKinds, and whatever else shall count
// as a user for as long as it exists, such as an Ingress or a custom resource.
type Live []*unstructured.Unstructured

// User is an object that refers to a target.
type User struct {
	// ID of the object that runs or can start something.
	ID object.ID
	// Controller is the object that made it, as its controller reference says: the ReplicaSet of a Pod. Zero for none.
	Controller object.ID
	// Why says in a few words why the object counts as a user.
	Why string
}

// Why an object counts as a user.
const (
	whyPod      = "running pod"
	whyTemplate = "pod template"
	whyReplicas = "replica set with replicas"
	whyPaused   = "newest replica set of a paused deployment"
	whyRevision = "revision in use"
	whyJob      = "unfinished job"
	whyOther    = "refers to it"
	whyClaims   = "claim template"
	whyMentions = "names it"
	whyNamed    = "names it by a reference rule"
	whyBound    = "has its rights"
)

// Find returns, for every target that is in use, its users, sorted and each of them once. Targets without a user have
// no entry.
//
// An error means that some object could not be understood; it holds a *MalformedError for each. The users found
// nevertheless are returned with it, but a target without users is then unknown, not unused.
func Find(targets object.Set, live Live) (map[object.ID][]User, error) {
	return Among(targets, live, Stale{})
}

// Among is Find where some objects are stale, so that they count as users only while they stay, and with rules for how
// custom resources name others.
func Among(targets object.Set, live Live, stale Stale, rules ...Rule) (map[object.ID][]User, error) {
	s := scene{live: live, stale: stale, rules: rules, generated: generated(targets), revisions: map[object.ID]bool{}, newest: map[object.ID]bool{}}
	problems := s.findRevisions()
	s.findPaused()
	users := map[object.ID][]User{}
	for _, u := range live {
		if err := s.addUser(u, targets, users); err != nil {
			problems = append(problems, &MalformedError{ID: object.IDOf(u), Err: err})
		}
	}
	problems = append(problems, s.findBindings(targets, users)...)
	for target, list := range users {
		users[target] = once(list)
	}
	settle(users, stale)
	return users, joined(problems)
}

// addUser enters an object as a user of every target that it needs.
func (s *scene) addUser(u *unstructured.Unstructured, targets object.Set, users map[object.ID][]User) error {
	refs, why, err := s.pins(u)
	user := User{ID: object.IDOf(u), Controller: controllerOf(u)}
	enter := func(ids []object.ID, why string) {
		user.Why = why
		for _, target := range ids {
			// An object that names itself is no reason to keep it.
			if targets.Has(target) && target != user.ID {
				users[target] = append(users[target], user)
			}
		}
	}
	enter(refs, why)
	enter(claimsOf(u, targets), whyClaims)
	if !isKnown(u) {
		enter(mentions(u, s.generated), whyMentions)
	}
	if why == "" {
		return err // it runs nothing
	}
	byRule, misfit := named(u, targets, s.rules)
	enter(byRule, whyNamed)
	return errors.Join(err, misfit)
}

// scene is what has to be known about all objects before a single one can be judged.
type scene struct {
	live  Live
	stale Stale
	rules []Rule
	// generated are the targets that may be mentioned, by name.
	generated map[string][]object.ID
	// revisions are the ControllerRevisions that a StatefulSet or DaemonSet, or a pod of one, is at.
	revisions map[object.ID]bool
	// newest are the newest ReplicaSets of paused Deployments.
	newest map[object.ID]bool
}

// pins returns what the object refers to if it counts as a user.
func (s *scene) pins(u *unstructured.Unstructured) (refs []object.ID, why string, err error) {
	why, err = s.counts(u)
	if why == "" || err != nil {
		return nil, "", err
	}
	refs, err = collected(u)
	return refs, why, err
}

// The kinds of users that Find tells apart.
var (
	pod                = schema.GroupKind{Kind: "Pod"}
	controller         = schema.GroupKind{Kind: "ReplicationController"}
	replicaSet         = schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}
	deployment         = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	statefulSet        = schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
	daemonSet          = schema.GroupKind{Group: "apps", Kind: "DaemonSet"}
	controllerRevision = schema.GroupKind{Group: "apps", Kind: "ControllerRevision"}
	job                = schema.GroupKind{Group: "batch", Kind: "Job"}
	cronJob            = schema.GroupKind{Group: "batch", Kind: "CronJob"}
)

// counts says why the object is a user; an empty string means that it is none.
func (s *scene) counts(u *unstructured.Unstructured) (why string, err error) {
	switch gk := u.GroupVersionKind().GroupKind(); gk {
	case pod:
		return when(alive(u))(whyPod)
	case replicaSet, controller:
		if s.newest[object.IDOf(u)] {
			return whyPaused, nil
		}
		return when(hasReplicas(u))(whyReplicas)
	case controllerRevision:
		return when(s.revisions[object.IDOf(u)], nil)(whyRevision)
	case job:
		finished, err := isFinished(u)
		return when(!finished, err)(whyJob)
	case deployment, statefulSet, daemonSet, cronJob:
		// A workload that exists wants its template, at zero replicas and suspended too: it is one patch away from
		// starting it.
		return whyTemplate, nil
	default:
		return whyOther, nil
	}
}

func when(yes bool, err error) func(string) (string, error) {
	return func(why string) (string, error) {
		if !yes || err != nil {
			return "", err
		}
		return why, nil
	}
}

// alive tells whether the containers of a pod may run or still start. A pod that is being deleted runs until its
// phase says otherwise, and one without a phase has not been looked at yet.
func alive(u *unstructured.Unstructured) (bool, error) {
	phase, err := path{"status", "phase"}.text(u.Object)
	return phase != "Succeeded" && phase != "Failed", err
}

// hasReplicas tells whether a ReplicaSet or ReplicationController has pods or wants some. An absent spec.replicas is 1
// (apps/v1 ReplicaSetSpec), so only a plain zero in both places lets go.
func hasReplicas(u *unstructured.Unstructured) (bool, error) {
	want, set, err := path{"spec", "replicas"}.number(u.Object)
	if err != nil {
		return false, err
	}
	have, _, err := path{"status", "replicas"}.number(u.Object)
	return !set || want > 0 || have > 0, err
}

// isFinished tells whether a Job has ended for good: only the conditions Complete and Failed say so, and a Job that is
// suspended or between two retries has neither. Source: batch/v1 JobConditionType.
func isFinished(u *unstructured.Unstructured) (finished bool, err error) {
	err = parsePath("status.conditions[]").maps(u.Object, func(c map[string]any) error {
		kind, status := c["type"], c["status"]
		finished = finished || (status == "True" && (kind == "Complete" || kind == "Failed"))
		return nil
	})
	return finished, err
}

// controllerOf returns the identity in the controller reference of the object.
func controllerOf(u *unstructured.Unstructured) object.ID {
	for _, ref := range u.GetOwnerReferences() {
		if ref.Controller != nil && *ref.Controller {
			gv, err := schema.ParseGroupVersion(ref.APIVersion)
			if err != nil {
				// A reference to nothing that can exist; it serves display only.
				return object.ID{}
			}
			return object.ID{Group: gv.Group, Kind: ref.Kind, Namespace: u.GetNamespace(), Name: ref.Name}
		}
	}
	return object.ID{}
}

// once sorts users and drops repetitions; of several reasons the first one in order stays.
func once(users []User) []User {
	slices.SortFunc(users, func(a, b User) int {
		if c := object.Compare(a.ID, b.ID); c != 0 {
			return c
		}
		return strings.Compare(a.Why, b.Why)
	})
	return slices.CompactFunc(users, func(a, b User) bool { return a.ID == b.ID })
}

// joined puts errors into an order that does not depend on that of the input.
func joined(problems []error) error {
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}
