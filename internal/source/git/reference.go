package git

import (
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
)

// DefaultBranch is followed when a reference names nothing, as in Flux.
const DefaultBranch = "master"

// Reference says which commit is wanted. A commit comes before a tag, and a tag before a branch.
type Reference struct {
	Branch, Tag string
	// Commit is a full hash. With a branch it must be on that branch.
	Commit string
}

// String names the reference in messages.
func (r Reference) String() string {
	switch {
	case r.Commit != "" && r.Branch != "":
		return fmt.Sprintf("commit %s on branch %q", r.Commit, r.Branch)
	case r.Commit != "":
		return "commit " + r.Commit
	case r.Tag != "":
		return fmt.Sprintf("tag %q", r.Tag)
	default:
		return fmt.Sprintf("branch %q", r.branch())
	}
}

// Revision is how a commit that the reference led to is called in a status.
func (r Reference) Revision(commit string) string {
	digest := "sha1:" + commit
	switch {
	case r.Commit != "" && r.Branch == "":
		return digest
	case r.Commit == "" && r.Tag != "":
		return r.Tag + "@" + digest
	default:
		return r.branch() + "@" + digest
	}
}

func (r Reference) branch() string {
	if r.Branch == "" {
		return DefaultBranch
	}
	return r.Branch
}

// name is the full name of the branch or tag.
func (r Reference) name() string {
	if r.Tag != "" {
		return plumbing.NewTagReferenceName(r.Tag).String()
	}
	return plumbing.NewBranchReferenceName(r.branch()).String()
}

// validate refuses what can't exist. It is called before the network is.
func (r Reference) validate() error {
	if r.Commit != "" && !plumbing.IsHash(r.Commit) {
		return r.invalid(errors.New("it is not a full commit hash"), "set spec.ref.commit to all 40 hexadecimal digits")
	}
	if r.Commit == "" || r.Branch != "" {
		if err := plumbing.ReferenceName(r.name()).Validate(); err != nil {
			return r.invalid(errors.New("git allows no such name"), "correct spec.ref")
		}
	}
	return nil
}

func (r Reference) invalid(err error, advice string) *Error {
	return &Error{Reason: ReasonReferenceInvalid, Doing: "read spec.ref, " + r.String(), Err: err, Advice: advice}
}
