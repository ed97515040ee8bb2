// Package recordtest makes records in tests.
package recordtest

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// New returns a writer and a function that closes it and reads the record.
func New(t *testing.T) (w *record.Writer, read func() *record.Run) {
	t.Helper()
	dir := t.TempDir()
	w, err := record.Create(dir, record.Meta{Run: "test", Scenario: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return w, func() *record.Run {
		t.Helper()
		if err := w.Close(record.End{}); err != nil {
			t.Fatal(err)
		}
		run, err := record.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
}
