// Package recordtest makes records in tests.
package recordtest

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// New returns a writer and a function that closes it and reads the record.
func New(t *testing.T) (w *record.Writer, read func() *record.Run) {
	t.Helper()
	w, _, read = Growing(t)
	return w, read
}

// Growing is New with a function that reads what is in the record so far, to wait for an entry. It
// takes the time after which the writer has written everything.
func Growing(t *testing.T) (w *record.Writer, soFar, read func() *record.Run) {
	t.Helper()
	dir := t.TempDir()
	w, err := record.Create(dir, record.Meta{Run: "test", Scenario: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(record.End{}) }) // of a test that does not read it
	now := func() *record.Run {
		t.Helper()
		run, err := record.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	soFar = func() *record.Run {
		t.Helper()
		time.Sleep(200 * time.Millisecond)
		return now()
	}
	return w, soFar, func() *record.Run {
		t.Helper()
		if err := w.Close(record.End{}); err != nil {
			t.Fatal(err)
		}
		return now()
	}
}
