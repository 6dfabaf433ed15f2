package usage

import (
	"fmt"
	"slices"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// foldFrom is the number of pods of one controller from which on Summary shows the controller instead.
const foldFrom = 3

// Summary returns one short line per user, sorted, such as "Pod/shop/web-6d4c-x7k2p". Three or more pods of one
// controller become a single line that names it and counts them: "ReplicaSet/shop/web-6d4c (3 pods)".
func Summary(users []User) []string {
	pods := map[object.ID]int{}
	for _, u := range users {
		if u.ID.GroupKind() == pod && u.Controller != (object.ID{}) {
			pods[u.Controller]++
		}
	}
	lines := make([]string, 0, len(users))
	for _, u := range users {
		switch {
		case pods[u.ID] >= foldFrom: // its own line is the folded one
		case u.ID.GroupKind() == pod && pods[u.Controller] >= foldFrom:
			lines = append(lines, fmt.Sprintf("%s (%d pods)", u.Controller, pods[u.Controller]))
		default:
			lines = append(lines, u.ID.String())
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}
