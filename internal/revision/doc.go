// Package revision stores the rendered objects of healthy revisions, so that they can be brought back when a later one fails.
//
// A revision is kept in Secrets beside its Kustomization, since it holds what was decrypted: compressed, cut into chunks below
// the size limit of an object, with a checksum over the whole. The Secrets are of a type of their own, belong to the
// Kustomization and go with it. The first chunk is written last, so that a revision without it was never stored.
//
// What lives here is how a revision is written and read. What does not: which revisions are kept, and when one is brought
// back (plan).
package revision
