// Package decrypt opens what SOPS encrypted: files that a build reads, whole objects, and single values of Secrets.
//
// Everything happens in memory. Keys are parsed from the data of a Secret and live as long as one build; PGP keys are used without
// a key ring on disk, and no program is started. No error has a key or a value in it: what the libraries say about data that they
// can't use may quote it, so it is left out.
//
// As in Flux the message authentication code of a file is not checked: labels and names that a build adds would break it.
package decrypt
