package plan

import (
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// Standing says which stale objects go once nothing uses them, and which stay whatever uses them, since the ones are users of
// the others. What is gone or someone else's is neither. What was not seen may be there, and stays.
func Standing(f Facts) usage.Stale {
	v := newView(f)
	out := usage.Stale{Leaving: object.Set{}, Kept: object.Set{}}
	for _, s := range f.Stale {
		switch {
		case dropped(f, s) != nil:
		case firstHold(beforeSeen, v, s) != nil, firstHold(ofItself, v, s) != nil, unallowed(v, s) != nil:
			out.Kept[s.ID] = struct{}{}
		default:
			out.Leaving[s.ID] = struct{}{}
		}
	}
	return out
}

// IsCustom tells whether the object's kind is none of Kubernetes' own.
func IsCustom(id object.ID) bool { return isCustom(id.Group) }
