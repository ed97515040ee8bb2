// Package bundle makes and opens the signed file of a certification: a tar archive of files, with
// an in-toto statement on their digests for each predicate, each in a DSSE envelope with a
// signature.
//
// The form of a bundle with given files, statements and signatures is unique. Open requires this
// form, and so refuses a bundle with any changed byte, including the archive's own headers and
// padding.
package bundle
