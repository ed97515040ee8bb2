// Package record stores a run: an append-only file of everything that the harness saw, without
// any judgement.
//
// A run writes one record with a Writer and never reads it. A judge or a report reads it with
// Read, at any later time and on any machine. Every line carries a checksum that is chained to
// the previous line, and the compressed file ends with a checksum of all its bytes, so that a
// truncated, edited or mixed-up record is detected. docs/record.md describes the format for
// readers in other languages.
package record
