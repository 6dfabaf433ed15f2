// Package git reads commits from Git repositories over HTTP, HTTPS and SSH.
//
// Resolve asks the remote what a reference points at, which costs one small request. Fetch gets that commit, shallow
// where the protocol allows it, and hands out its files as an artifact.Tree. Files are read from Git's object store,
// each proved by its hash: there is no working copy, so nothing in a repository can touch a file of the machine, and a
// checkout that stops half way does not exist.
//
// It uses go-git itself rather than github.com/fluxcd/pkg/git/gogit, whose clone always makes a working copy and can't
// fetch a single commit.
//
// Every failure is an *Error with a reason for the status and a message that says what to do; no message carries
// credentials. Secrets, conditions and retries belong to internal/controller/gitrepository.
package git
