// Package certify runs the experiments that a certificate rests on, bundles their results, and
// verifies such a bundle.
//
// A certificate covers rows of the catalogue. Each scenario that settles one of them runs at
// least three times, with each control-plane node as its victim in turn, and a row is certified
// only if it passed in all of them. The bundle has the records; the verifier derives every
// verdict again from these, by the rules of their own holdfast.
package certify
