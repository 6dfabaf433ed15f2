package git

import (
	"errors"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/go-git/go-git/v5/plumbing"
)

// DefaultBranch is followed when a reference names nothing, as in Flux.
const DefaultBranch = "master"

// peeled is the suffix of the entry in a server's list that says which commit a tag with a message points at.
const peeled = "^{}"

// Reference says which commit is wanted. Where several fields are set the first of Commit, Name, Tag, SemVer and Branch
// decides, as in Flux's controller (whose API documentation has SemVer before Tag).
type Reference struct {
	// Commit is a full hash. With a branch it must be on that branch.
	Commit string
	// Name is a full reference name, such as refs/pull/1/head.
	Name string
	Tag  string
	// SemVer is a range of versions; the tag with the highest one is followed.
	SemVer string
	Branch string
}

// Head is what a reference points at.
type Head struct {
	// Commit is the hash, and Revision the name for a status.
	Commit, Revision string

	wanted Reference
	// source is the name to fetch by; empty for a commit.
	source plumbing.ReferenceName
}

// String names the reference in messages.
func (r Reference) String() string {
	switch {
	case r.Commit != "" && r.Branch != "":
		return fmt.Sprintf("commit %s on branch %q", r.Commit, r.Branch)
	case r.Commit != "":
		return "commit " + r.Commit
	case r.Name != "":
		return fmt.Sprintf("reference %q", r.Name)
	case r.Tag != "":
		return fmt.Sprintf("tag %q", r.Tag)
	case r.SemVer != "":
		return fmt.Sprintf("a tag in the version range %q", r.SemVer)
	default:
		return fmt.Sprintf("branch %q", r.branch())
	}
}

// revision is how a commit that the reference led to, by the name source, is called in a status.
func (r Reference) revision(source plumbing.ReferenceName, commit string) string {
	digest := "sha1:" + commit
	switch {
	case r.Name != "":
		return r.Name + "@" + digest
	case r.Commit != "" && r.Branch == "":
		return digest
	case r.Commit != "":
		return r.branch() + "@" + digest
	default:
		return source.Short() + "@" + digest
	}
}

func (r Reference) head(source plumbing.ReferenceName, commit string) Head {
	return Head{Commit: commit, Revision: r.revision(source, commit), wanted: r, source: source}
}

func (r Reference) branch() string {
	if r.Branch == "" {
		return DefaultBranch
	}
	return r.Branch
}

// name is the full name of what is wanted, as far as it is known without asking the server: not for a range of versions.
func (r Reference) name() plumbing.ReferenceName {
	switch {
	case r.Commit != "":
		return plumbing.NewBranchReferenceName(r.branch())
	case r.Name != "":
		return plumbing.ReferenceName(strings.TrimSuffix(r.Name, peeled))
	case r.Tag != "":
		return plumbing.NewTagReferenceName(r.Tag)
	default:
		return plumbing.NewBranchReferenceName(r.branch())
	}
}

// byRange tells whether a range of versions decides.
func (r Reference) byRange() bool {
	return r.Commit == "" && r.Name == "" && r.Tag == "" && r.SemVer != ""
}

// validate refuses what can't exist. It is called before the network is.
func (r Reference) validate() error {
	if r.Commit != "" && !plumbing.IsHash(r.Commit) {
		return r.invalid(errors.New("it is not a full commit hash"), "set spec.ref.commit to all 40 hexadecimal digits")
	}
	if r.byRange() {
		if _, err := semver.NewConstraint(r.SemVer); err != nil {
			return r.invalid(errors.New("it is no range of versions"), "set spec.ref.semver to one such as '>=1.2.0 <2.0.0' or '1.x'")
		}
		return nil
	}
	if r.Commit == "" || r.Branch != "" {
		name := r.name()
		if err := name.Validate(); err != nil || !strings.HasPrefix(name.String(), "refs/") {
			return r.invalid(errors.New("git allows no such name"), "correct spec.ref; spec.ref.name is a full one, such as refs/heads/main")
		}
	}
	return nil
}

func (r Reference) invalid(err error, advice string) *Error {
	return &Error{Reason: ReasonReferenceInvalid, Doing: "read spec.ref, " + r.String(), Err: err, Advice: advice}
}

// newest picks the tags with the highest version of a range. There are several when their versions differ in nothing
// that versions are ordered by, such as build metadata.
func newest(refs []*plumbing.Reference, constraint string) []plumbing.ReferenceName {
	allowed, err := semver.NewConstraint(constraint)
	if err != nil {
		return nil // validate said so already
	}
	var best *semver.Version
	var names []plumbing.ReferenceName
	for _, ref := range refs {
		if !ref.Name().IsTag() || strings.HasSuffix(ref.Name().String(), peeled) {
			continue
		}
		version, ok := parseVersion(ref.Name().Short())
		if !ok || !allowed.Check(version) {
			continue
		}
		switch {
		case best == nil || version.GreaterThan(best):
			best, names = version, []plumbing.ReferenceName{ref.Name()}
		case version.Equal(best):
			names = append(names, ref.Name())
		}
	}
	return names
}

// parseVersion reads a version with all three numbers, with or without a leading v, as Flux does: a tag such as v1 is no version.
func parseVersion(tag string) (*semver.Version, bool) {
	if strings.Count(tag, ".") < 2 {
		return nil, false
	}
	version, err := semver.NewVersion(tag)
	return version, err == nil
}
