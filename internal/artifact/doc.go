// Package artifact keeps the artifacts of sources, and reads those that other controllers keep.
//
// A Tree is what a source delivers: files and symbolic links by path. A Store writes a tree as a reproducible tar.gz,
// serves it over HTTP and collects what was replaced. A Reader fetches an artifact, proves that it is complete and the
// one that was announced, and unpacks it. An artifact that can't be proved leaves nothing behind: a partial source
// would look like a wish to delete the rest.
//
// Links are resolved within the tree, in memory, before anything is written. An artifact holds no links, and no path
// of the machine is ever opened on behalf of one.
//
// The store is our own and not github.com/fluxcd/pkg/artifact/storage, because that one archives a directory on disk
// and drops links silently, and because its module needs a fork of go-digest that importers can't inherit.
//
// Where a tree comes from is not known here; see internal/source/git. Neither is the Kubernetes API, but for the type
// that describes an artifact in a status.
package artifact
