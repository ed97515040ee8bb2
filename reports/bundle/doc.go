// Package bundle makes and opens the signed file that a certification hands over: a tar
// archive of files, with an in-toto statement on their digests for each predicate, each in a
// DSSE envelope with a signature.
//
// There is one way only to write down given files, statements and signatures. Open demands
// it, so that a bundle in which any byte was changed is refused, those of the archive's own
// headers and padding included.
package bundle
