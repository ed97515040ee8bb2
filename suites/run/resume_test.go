package run

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// TestUnsettled: a scenario that was interrupted runs again when the run is resumed, unless a
// requirement is proven to have failed.
func TestUnsettled(t *testing.T) {
	healthy := []any{
		record.Steady{Phase: "before", OK: true},
		record.Op{Client: "c-a", Entrance: "a", API: "kubernetes", Type: record.OpCreate, Key: "k", Value: "v1", Revision: "1", Outcome: record.OK, Call: 1, Return: 2},
		record.Op{Client: "c-a", Entrance: "a", API: "kubernetes", Type: record.OpUpdate, Key: "k", Value: "v2", Expect: "1", Revision: "2", Outcome: record.OK, Call: 3, Return: 4},
		record.Op{Client: "c-b", Entrance: "b", API: "kubernetes", Type: record.OpGet, Key: "k", Value: "v2", Found: true, Revision: "2", Outcome: record.OK, Call: 5, Return: 6},
	}
	with := func(more any) []any { return append(slices.Clip(healthy), more) }
	stale := with(record.Op{Client: "c-b", Entrance: "b", API: "kubernetes", Type: record.OpGet, Key: "k", Value: "v1", Found: true, Revision: "1", Outcome: record.OK, Call: 7, Return: 8})
	late := with(record.Steady{Phase: "after", Limit: 20, Took: 30, Problems: []string{"node-2 is not ready"}})
	for _, tc := range []struct {
		name     string
		entries  []any
		end      string
		cutShort bool
		want     bool // it is unsettled
		fails    bool // after the run was resumed
	}{
		{name: "a stale read", entries: stale, fails: true},
		{name: "interrupted after a stale read", entries: stale, end: "interrupted", fails: true},
		{name: "interrupted", entries: healthy, end: "interrupted", want: true},
		{name: "interrupted after a time that was too long", entries: late, end: "interrupted", want: true},
		{name: "cut short after a stale read", entries: stale, cutShort: true, want: true},
		{name: "complete", entries: healthy},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := scenarios.Parse("tiny", []byte(tiny))
			if err != nil {
				t.Fatal(err)
			}
			out := filepath.Join(t.TempDir(), "out")
			p := New(refuser{}, clusters.Default(), []*scenarios.Scenario{s}, 7, "test")
			if err := p.Divide(refuser{}, 1); err != nil {
				t.Fatal(err)
			}
			w, err := record.Create(record.Dir(out, "tiny"), record.Meta{Run: p.Run, Scenario: "tiny", Checks: s.Experiment().Checks})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range tc.entries {
				kind := record.KindOp
				if _, ok := e.(record.Steady); ok {
					kind = record.KindSteady
				}
				if err := w.Append(kind, e); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(record.End{Error: tc.end}); err != nil {
				t.Fatal(err)
			}
			if tc.cutShort {
				path := filepath.Join(record.Dir(out, "tiny"), record.FileName)
				if whole, err := os.Stat(path); err != nil || os.Truncate(path, whole.Size()-10) != nil {
					t.Fatalf("%v, %v", whole, err)
				}
			}
			p.Ended = time.Now().Add(-time.Hour)
			ended := p.Ended
			left := p.Unsettled(out)
			if slices.Contains(left, "tiny") != tc.want {
				t.Fatalf("unsettled: %q, want it %t", left, tc.want)
			}
			if tc.want {
				return
			}
			v, err := p.Resume(t.Context(), refuser{}, out, shown)
			if err != nil {
				t.Fatal(err)
			}
			if !p.Ended.Equal(ended) {
				t.Errorf("the run ended at %v, and after it was resumed with nothing left at %v", ended, p.Ended)
			}
			fails := slices.ContainsFunc(v.Results, func(r judge.Result) bool { return r.Requirement == "HA-INV-001" && r.Verdict == judge.Fail })
			if fails != tc.fails {
				t.Errorf("after the run was resumed HA-INV-001 fails: %t, want %t", fails, tc.fails)
			}
		})
	}
}

const mine = `
apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: mine}
spec:
  timeline:
  - wait: 5s
  requirements:
  - {id: OWN-1, judge: mine}
`

// TestOwnJudges: the results of a run are those of the program's own judges, too, and so is what a
// resumed run repeats.
func TestOwnJudges(t *testing.T) {
	for _, tc := range []struct {
		name    string
		verdict judge.Verdict
		end     string
		settled bool
	}{
		{"passes", judge.Pass, "", true},
		{"fails", judge.Fail, "", true},
		{"interrupted after a violation that nothing later can explain", judge.Fail, "interrupted", true},
		{"interrupted", judge.Pass, "interrupted", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			own := judge.Judge{Doc: judge.Doc{Name: "mine", Lasting: true}, Evaluate: func(*judge.Case) judge.Finding {
				return judge.Finding{Verdict: tc.verdict, Sentence: "as I see it"}
			}}
			s, err := scenarios.Parse("mine", []byte(mine), scenarios.WithJudges(own))
			if err != nil {
				t.Fatal(err)
			}
			out := filepath.Join(t.TempDir(), "out")
			p := New(refuser{}, clusters.Default(), []*scenarios.Scenario{s}, 7, "test")
			if err := p.Divide(refuser{}, 1); err != nil {
				t.Fatal(err)
			}
			w, err := record.Create(record.Dir(out, "mine"), record.Meta{Run: p.Run, Scenario: "mine", Checks: s.Experiment().Checks})
			if err == nil {
				err = w.Append(record.KindSteady, record.Steady{Phase: "before", OK: true})
			}
			if err == nil {
				err = w.Close(record.End{Error: tc.end})
			}
			if err != nil {
				t.Fatal(err)
			}
			if left := p.Unsettled(out, own); len(left) == 0 != tc.settled {
				t.Fatalf("unsettled: %q, want settled %t", left, tc.settled)
			}
			if !tc.settled {
				return
			}
			v, err := p.Resume(t.Context(), refuser{}, out, shown, own)
			if err != nil {
				t.Fatal(err)
			}
			if r := v.Results[0]; r.Requirement != "OWN-1" || r.Verdict != tc.verdict || r.Sentence != "as I see it" {
				t.Errorf("%+v", r)
			}
		})
	}
}
