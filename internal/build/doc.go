// Package build renders the directory of an artifact into the objects that a Kustomization wants.
//
// The model: a build is a function of the files under a root and of the Kustomization's spec. It reads nothing else on
// disk, writes nothing at all, and gives the same objects in the same order every time. The kustomization file that the
// spec asks for is merged in memory and laid over the artifact, so one unpacked artifact may serve many builds at once.
//
// Kustomize keeps one OpenAPI schema for the whole process. Builds that only read it run side by side; a build that may
// load one of its own runs alone and puts the built-in one back (schema.go). Which of the two a build is, and whether it
// asks for something that is never done (Helm, files outside the artifact), is found by reading its kustomization files
// before it starts (tree.go).
//
// What lives here: rendering, substitution of variables (substitute.go), the checks that need no cluster, and errors that name
// objects and files of the repository rather than of the disk. Fetching, keys, reading the values of variables, owner labels and
// everything that talks to a cluster belong elsewhere. Remote bases are the one exception: kustomize fetches them itself,
// unless that is refused.
package build
