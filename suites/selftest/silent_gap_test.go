package selftest

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

// TestSilentGapShows edits the record of the watches as the plant silent-gap changes it: the watch
// of compacted history is accepted and starts with the next change. The judge must still find that
// the history was gone.
func TestSilentGapShows(t *testing.T) {
	dir := t.TempDir()
	w, err := record.Create(dir, record.Meta{Run: "test", Scenario: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := etcdWatches(t.Context(), etcdtest.New(t, 1), w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(record.End{}); err != nil {
		t.Fatal(err)
	}
	for _, silent := range []bool{false, true} {
		run, err := record.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		want := judge.Pass
		if silent {
			swallowRefusal(run)
			want = judge.Fail
		}
		results := judge.Evaluate(run)
		i := slices.IndexFunc(results, func(r judge.Result) bool { return r.Judge == "watch-compacted" })
		if results[i].Verdict != want {
			t.Errorf("silent %t: %s: %s", silent, results[i].Verdict, results[i].Sentence)
		}
	}
}

// swallowRefusal makes the record show the last watch as accepted, with the events of the second
// one except for the deletion at its start.
func swallowRefusal(run *record.Run) {
	last := run.Watches[0].V
	for _, s := range run.Watches {
		if strings.HasSuffix(s.V.ID, "/3") {
			last = s.V
		}
	}
	run.Watches = slices.DeleteFunc(run.Watches, func(s record.Timed[record.Watch]) bool { return s.V.ID == last.ID })
	last.Phase, last.Status, last.Compacted, last.Error = record.WatchOpened, 0, "", ""
	run.Watches = append(run.Watches, record.Timed[record.Watch]{At: last.Seen, V: last})
	for _, e := range slices.Clone(run.Events) {
		if strings.HasSuffix(e.V.Watch, "/2") && e.V.Type != record.EventDeleted {
			e.V.Watch = last.ID
			run.Events = append(run.Events, e)
		}
	}
}
