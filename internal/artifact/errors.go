package artifact

import (
	"errors"
	"fmt"
)

// ErrNotFound says that an artifact is not there, or not yet.
var ErrNotFound = errors.New("artifact not found")

// TransientError says that an artifact could not be fetched now and may well be a moment later.
type TransientError struct {
	URL string
	Err error
}

func (e *TransientError) Error() string {
	return fmt.Sprintf("fetch artifact %s: %v; it is tried again", e.URL, e.Err)
}

func (e *TransientError) Unwrap() error { return e.Err }

// DigestMismatch says that a complete download is not the artifact that was announced.
type DigestMismatch struct {
	Want, Got string
}

func (e *DigestMismatch) Error() string {
	return fmt.Sprintf("artifact has digest %s, want %s; nothing of it is used, wait for the source to publish it again", e.Got, e.Want)
}

// SizeMismatch says that an artifact has the announced digest and yet another size, or is larger than allowed.
type SizeMismatch struct {
	Digest    string
	Want, Got int64
}

func (e *SizeMismatch) Error() string {
	return fmt.Sprintf("artifact %s has at least %d bytes, want %d; nothing of it is used, check the source controller", e.Digest, e.Got, e.Want)
}

// TruncatedError says that an archive ends early: the one who published it did not finish it.
type TruncatedError struct {
	Digest string
	Err    error
}

func (e *TruncatedError) Error() string {
	return fmt.Sprintf("artifact %s is cut off: %v; nothing of it is used, reconcile the source to have it built again", e.Digest, e.Err)
}

func (e *TruncatedError) Unwrap() error { return e.Err }

// EntryError names an entry of an archive that is refused.
type EntryError struct {
	Digest, Path string
	Err          error
}

func (e *EntryError) Error() string {
	return fmt.Sprintf("unpack %q of artifact %s: %v; nothing of it is used, remove it from the source", e.Path, e.Digest, e.Err)
}

func (e *EntryError) Unwrap() error { return e.Err }
