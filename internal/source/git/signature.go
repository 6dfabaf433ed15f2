package git

import (
	"errors"
	"fmt"
	"io"

	"github.com/fluxcd/pkg/git/signature"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Why a signature proves nothing.
var (
	ErrUnsigned      = errors.New("it is not signed")
	ErrUntrusted     = errors.New("none of the trusted keys made the signature")
	ErrUnknownScheme = errors.New("it is signed in a way that can't be checked; only PGP and SSH can")
	ErrOtherName     = errors.New("the signature is for a tag of another name")
)

// Keys are the public keys that are trusted.
type Keys struct {
	// PGP are armored key rings, and SSH keys in the form of authorized_keys.
	PGP, SSH []string
}

// Signed is an object of a repository that may carry a signature.
type Signed struct {
	// Name is what the object is called in messages.
	Name string

	named, wanted string
	signature     string
	payload       []byte
}

// Verify returns the key that made the signature, or says why it proves nothing.
func (s *Signed) Verify(keys Keys) (key string, err error) {
	switch {
	case s.signature == "":
		return "", ErrUnsigned
	case s.named != s.wanted:
		// A signed tag of an old release could otherwise be passed off as a new one.
		return "", fmt.Errorf("%w: %q", ErrOtherName, s.named)
	case signature.IsPGPSignature(s.signature):
		key, err = signature.VerifyPGPSignature(s.signature, s.payload, keys.PGP...)
	case signature.IsSSHSignature(s.signature):
		key, err = signature.VerifySSHSignature(s.signature, s.payload, keys.SSH...)
	default:
		return "", ErrUnknownScheme
	}
	if err != nil {
		// The library's words are about parsing keys and signatures; whatever they are, nobody who is trusted signed it.
		return "", errors.Join(ErrUntrusted, err)
	}
	return key, nil
}

func signedCommit(c *object.Commit) (*Signed, error) {
	payload, err := encoded(c.EncodeWithoutSignature)
	if err != nil {
		return nil, fmt.Errorf("read the signed part of commit %s: %w", c.Hash, err)
	}
	return &Signed{Name: c.Hash.String(), signature: c.PGPSignature, payload: payload}, nil
}

// signedTag is a tag that was found under a name.
func signedTag(t *object.Tag, name plumbing.ReferenceName) (*Signed, error) {
	payload, err := encoded(t.EncodeWithoutSignature)
	if err != nil {
		return nil, fmt.Errorf("read the signed part of tag %s: %w", t.Name, err)
	}
	return &Signed{
		Name: name.Short() + "@" + t.Hash.String(), named: t.Name, wanted: name.Short(), signature: t.PGPSignature, payload: payload,
	}, nil
}

func encoded(encode func(plumbing.EncodedObject) error) (_ []byte, err error) {
	o := &plumbing.MemoryObject{}
	if err := encode(o); err != nil {
		return nil, err
	}
	content, err := o.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	return io.ReadAll(content)
}
