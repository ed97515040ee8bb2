package selftest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

func TestEtcdWatches(t *testing.T) {
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
	run, err := record.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Ops) != 10 {
		t.Errorf("%d operations", len(run.Ops))
	}
	var steps []string
	for _, s := range run.Watches {
		step := fmt.Sprintf("%s %s", s.V.ID[strings.LastIndex(s.V.ID, "/")+1:], s.V.Phase)
		if s.V.Status != 0 {
			step += fmt.Sprintf(" %d", s.V.Status)
		}
		steps = append(steps, step)
		if s.V.Phase == record.WatchRefused && s.V.Compacted == "" {
			t.Errorf("a refusal without a version: %+v", s.V)
		}
	}
	slices.Sort(steps) // two watches end side by side
	if want := []string{"1 ended", "1 opened", "2 ended", "2 opened", "3 ended 410", "3 opened"}; !slices.Equal(steps, want) &&
		!slices.Equal(steps, []string{"1 ended", "1 opened", "2 ended", "2 opened", "3 refused 410"}) {
		t.Errorf("%q", steps)
	}
	seen := map[string][]string{}
	for _, e := range run.Events {
		at := strings.LastIndex(e.V.Watch, "/")
		key := e.V.Key[strings.LastIndex(e.V.Key, "/")+1:]
		seen[e.V.Watch[at+1:]] = append(seen[e.V.Watch[at+1:]], fmt.Sprintf("%d: %s %s=%s before %s", e.V.Batch, e.V.Type, key, e.V.Value, e.V.PreviousValue))
	}
	tail := []string{"added a=6 before ", "modified b=7 before 5", "added c=8 before ", "added last=9 before "}
	second := []string{"deleted a= before "}
	first := []string{"added a=1 before ", "added b=2 before ", "modified a=3 before 1", "modified b=4 before 2", "modified b=5 before 4", "deleted a= before 3"}
	for watch, want := range map[string][]string{"1": append(first, tail...), "2": append(second, tail...), "3": nil} {
		var got []string
		for _, s := range seen[watch] {
			_, s, _ = strings.Cut(s, ": ")
			got = append(got, s)
		}
		if !slices.Equal(got, want) {
			t.Errorf("watch %s: %q, want %q", watch, got, want)
		}
	}
}
