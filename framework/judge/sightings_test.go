package judge

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// shown lets a watch and a list show a value of k.
func (s *story) shown(value string, rev string, at float64) *story {
	add(s, &s.run.Watches, record.Watch{ID: "w", Phase: record.WatchOpened, API: facts.APIKubernetes, Collection: "c"})
	return add(s, &s.run.Events, record.Event{Watch: "w", Type: record.EventModified, Key: "k", Value: value, Revision: rev, Seen: sec(at)})
}

// Observations of lists and watches resolve writes of unknown outcome before any search; wrong
// ones cause no failure.
func TestSightings(t *testing.T) {
	// No client reads v2 with a quorum, yet another write replaces its version.
	replaced := func() *story {
		return one().write(update, "a", "k", "v2", 0, 3, 4).over(1).outcome(record.Unknown).
			write(update, "b", "k", "v3", 7, 8, 9).over(5).read("b", "k", "v3", 7, 10, 11)
	}
	for _, tt := range []struct {
		name  string
		story *story
		want  porcupine.CheckResult
		by    string
	}{
		{"not shown", replaced(), porcupine.Ok, "search"},
		{"shown by a watch", replaced().shown("v2", "5", 6), porcupine.Ok, "replay"},
		{"shown by a list", replaced().list("l", "6", 5, 6, [3]string{"k", "v2", "5"}), porcupine.Ok, "replay"},
		{"shown with another version", replaced().shown("v2", "6", 6), porcupine.Ok, "search"},
		{"shown before it was written", replaced().shown("v2", "5", 1), porcupine.Ok, "replay"},
		{"shown, and never there", one().write(update, "a", "k", "v2", 0, 3, 4).over(1).outcome(record.Unknown).shown("v2", "5", 6).
			read("b", "k", "v1", 1, 7, 8), porcupine.Ok, "replay"},
		{"shown of another collection", func() *story {
			s := replaced().shown("v2", "5", 6)
			s.run.Watches[0].V.Collection = "d"
			return s
		}(), porcupine.Ok, "search"},
		{"shown, and an acknowledged write lost", replaced().shown("v2", "5", 6).read("b", "k", "v1", 1, 12, 13), porcupine.Illegal, "refutation"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var ops []record.Op
			for i := range tt.story.run.Ops {
				op := &tt.story.run.Ops[i].V
				op.Collection = "c"
				ops = append(ops, *op)
			}
			if got, by := tried(tt.story.run, ops); got != tt.want || by != tt.by {
				t.Errorf("%s by %s, want %s by %s", got, by, tt.want, tt.by)
			}
			if f := judges.JudgeLinearizable(&facts.Case{Run: tt.story.run}, time.Minute, judges.SearchRoom); (f.Verdict == Pass) != (tt.want == porcupine.Ok) {
				t.Errorf("%s: %s", f.Verdict, f.Sentence)
			}
		})
	}
}
