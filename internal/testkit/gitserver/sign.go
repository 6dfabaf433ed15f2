package gitserver

import (
	"fmt"
	"strings"
)

// Sign makes a signature over the bytes of an object.
type Sign func(payload []byte) (armored string, err error)

// SignHead replaces the last commit of a branch by one that is signed, and returns its hash.
func (s *Server) SignHead(repo, branch string, sign Sign) (string, error) {
	s.repoMu.Lock()
	defer s.repoMu.Unlock()
	ref := "refs/heads/" + branch
	payload, err := s.run(repo, nil, "cat-file", "commit", ref)
	if err != nil {
		return "", fmt.Errorf("read the head of %s: %w", branch, err)
	}
	armored, err := sign([]byte(payload))
	if err != nil {
		return "", fmt.Errorf("sign the head of %s: %w", branch, err)
	}
	// A signature is a header whose further lines begin with a space.
	headers, message, _ := strings.Cut(payload, "\n\n")
	header := "gpgsig " + strings.ReplaceAll(strings.TrimSpace(armored), "\n", "\n ")
	return s.write(repo, "commit", ref, headers+"\n"+header+"\n\n"+message)
}

// SignedTag points a tag at a commit, with a signature for a tag of the name signedName.
func (s *Server) SignedTag(repo, name, signedName, commit string, sign Sign) error {
	s.repoMu.Lock()
	defer s.repoMu.Unlock()
	payload := fmt.Sprintf("object %s\ntype commit\ntag %s\ntagger holdfast <holdfast@example.com> 1700000000 +0000\n\nrelease\n", commit, signedName)
	armored, err := sign([]byte(payload))
	if err != nil {
		return fmt.Errorf("sign tag %s: %w", name, err)
	}
	_, err = s.write(repo, "tag", "refs/tags/"+name, payload+strings.TrimSpace(armored)+"\n")
	return err
}

// write stores an object and points a reference at it.
func (s *Server) write(repo, kind, ref, content string) (string, error) {
	out, err := s.run(repo, []byte(content), "hash-object", "-t", kind, "-w", "--stdin")
	if err != nil {
		return "", fmt.Errorf("write %s for %s: %w", kind, ref, err)
	}
	hash := strings.TrimSpace(out)
	if _, err := s.run(repo, nil, "update-ref", ref, hash); err != nil {
		return "", fmt.Errorf("point %s at a new %s: %w", ref, kind, err)
	}
	return hash, nil
}
