package observe

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// listPage is the number of objects asked for at a time.
const listPage = 500

// Question asks who uses objects.
type Question struct {
	// IDs are the objects.
	IDs []object.ID
	// History asks for the revisions that refer to them, too, and from which nothing runs.
	History bool
	// Stale are the objects that count as users only while they stay.
	Stale usage.Stale
	// Around are objects that the same Kustomization made. Custom resources are listed of their kinds, and of the kinds that
	// the definitions among them define.
	Around object.Set
	// References are rules for how custom resources name others.
	References []usage.Rule
	// Unserved tells whether a rule may be for a kind that is not served, and then finds nothing. Otherwise the users are not
	// known: such a rule is rather misspelt.
	Unserved bool
	// Self is an object that does not count as a user; zero for none.
	Self object.ID
}

// Users finds who refers to each of the objects, of which none counts as stale.
func (o *Observer) Users(ctx context.Context, ids []object.ID, history bool) map[object.ID]plan.Use {
	return o.UsersOf(ctx, Question{IDs: ids, History: history})
}

// UsersOf finds who refers to each of the objects. Each kind of users is listed once per namespace, and only where an object
// is that it can refer to; for cluster-scoped objects in all namespaces.
func (o *Observer) UsersOf(ctx context.Context, q Question) map[object.ID]plan.Use {
	uses := make(map[object.ID]plan.Use, len(q.IDs))
	targets := object.Set{}
	for _, id := range q.IDs {
		switch {
		case plan.IsDefinition(id):
			uses[id] = o.customResources(ctx, id)
		case plan.IsNamespace(id):
			uses[id] = o.namespaceContents(ctx, id.Name)
		case !usage.CanBeUsed(id) && len(usage.Sources(id, q.Stale, q.References...)) == 0:
			uses[id] = plan.Use{Known: true}
		default:
			targets[id] = struct{}{}
		}
	}
	if len(targets) > 0 {
		s := o.survey(ctx, targets, q)
		for id, use := range s.uses(targets, q) {
			uses[id] = use
		}
	}
	return uses
}

// uses draws the conclusion from what was listed. What can't be told of an object holds it, and so it counts as a user of
// others itself.
func (s *survey) uses(targets object.Set, q Question) map[object.ID]plan.Use {
	s.live = slices.DeleteFunc(s.live, func(u *unstructured.Unstructured) bool { return object.IDOf(u) == q.Self })
	var past map[object.ID][]usage.User
	held := object.Set{}
	if q.History {
		var err error
		past, err = usage.History(targets, s.live)
		s.note(targets, err)
		for id := range past {
			held[id] = struct{}{}
		}
	}
	found, err := usage.Among(targets, s.live, q.Stale, q.References...)
	s.note(targets, err)
	for id := range s.unknown {
		held[id] = struct{}{}
	}
	if len(held) > 0 {
		found, _ = usage.Among(targets, s.live, q.Stale.Keep(held), q.References...) // the same objects can't be understood, which is noted
	}
	uses := make(map[object.ID]plan.Use, len(targets))
	for id := range targets {
		users, revisions := usage.Summary(found[id]), usage.Summary(past[id])
		if err := s.unknown[id]; err != nil && len(users) == 0 && len(revisions) == 0 {
			uses[id] = plan.Use{Why: err.Error()}
			continue
		}
		uses[id] = plan.Use{Known: true, Users: users, Past: revisions}
	}
	return uses
}

// note makes the users of the targets unknown that an object which can't be understood may refer to: those of its
// namespace, and across namespaces where one of the two is cluster-scoped.
func (s *survey) note(targets object.Set, err error) {
	for _, problem := range split(err) {
		var malformed *usage.MalformedError
		known := errors.As(problem, &malformed)
		for id := range targets {
			far := known && id.Namespace != "" && malformed.ID.Namespace != "" && id.Namespace != malformed.ID.Namespace
			if !far && s.unknown[id] == nil {
				s.unknown[id] = problem
			}
		}
	}
}

// split returns the errors that were joined.
func split(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}
