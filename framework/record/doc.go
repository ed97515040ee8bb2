// Package record is the memory of a run: an append-only file of everything
// that the harness saw, and nothing that it thinks of it.
//
// A run writes one record with a Writer and never reads it. A judge or a
// report reads it with Read, at any later time and on any machine. Every line
// carries a checksum that is chained to the line before, and the compressed file
// ends with one of all its bytes, so that a record which was cut short, edited or
// mixed up is noticed. docs/record.md describes the format for readers in other
// languages.
package record
