// Package gitserver serves Git repositories over smart HTTP and SSH on loopback, for tests and for the demo.
//
// It runs the installed git behind net/http, and OpenSSH's sshd, so that what is tested is the real protocol. Repositories are bare ones
// under one directory; commits are written with git's fast-import, without a working copy. Faults (a status, a delay,
// a connection that is cut) can be put in front of any request.
//
// The core knows nothing of the testing package, and nothing here belongs into the controller: clients of Git servers
// live in internal/source/git.
package gitserver
