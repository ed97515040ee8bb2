package judge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// refused makes the last operation a refused one with a statement about its key.
func (s *story) refused(why record.Refusal) *story {
	l := s.last()
	l.Outcome, l.Refusal, l.Error, l.Revision = record.Refused, why, "status 4xx", ""
	return s
}

// A refusal's statement about a key is a read of it.
func TestRefusalsAreReads(t *testing.T) {
	const patch, absent, present, version = record.OpPatch, record.RefusedAbsent, record.RefusedPresent, record.RefusedVersion
	one := func() *story {
		return newStory().write(create, "a", "k", "v1", 1, 1, 2).read("b", "k", "v1", 1, 2.1, 2.2)
	}
	two := func() *story { return one().write(update, "a", "k", "v2", 2, 3, 4).over(1) }
	for _, tt := range []struct {
		name  string
		story *story
		want  Verdict
		says  string
	}{
		{"not found, of a key that is there", one().write(patch, "b", "k", "p", 0, 3, 4).refused(absent), Fail,
			`c-b's patch through b of "p", called at 3.000s, was refused, since the key did not exist, although c-a's create through a of "v1"`},
		{"not found, next to the create", newStory().write(create, "a", "k", "v1", 1, 1, 4).write(patch, "b", "k", "p", 0, 2, 3).refused(absent).
			read("b", "k", "v1", 1, 5, 6), Pass, ""},
		{"not found, after a delete", one().write(remove, "a", "k", "", 0, 3, 4).write(patch, "b", "k", "p", 0, 5, 6).refused(absent), Pass, ""},
		{"not found, after a delete of unknown outcome", one().write(remove, "a", "k", "", 0, 3, 4).outcome(record.Unknown).
			write(patch, "b", "k", "p", 0, 5, 6).refused(absent).read("a", "k", "", 0, 7, 8), Pass, ""},
		{"not found, and there again", one().write(remove, "a", "k", "", 0, 3, 4).outcome(record.Unknown).
			write(patch, "b", "k", "p", 0, 5, 6).refused(absent).read("a", "k", "v1", 1, 7, 8), Fail, ""},
		{"already there, and is not", one().write(remove, "a", "k", "", 0, 3, 4).write(create, "b", "k", "v2", 0, 5, 6).refused(present).
			read("a", "k", "", 0, 7, 8), Fail, "was refused, since the key existed, although c-a's delete"},
		{"already there", one().write(create, "b", "k", "v2", 0, 5, 6).refused(present), Pass, ""},
		{"already there, by a create of unknown outcome that was deleted", newStory().read("a", "k", "", 0, 0.1, 0.2).
			write(create, "a", "k", "v1", 0, 1, 2).outcome(record.Unknown).write(create, "b", "k", "v2", 0, 3, 4).refused(present).
			write(remove, "b", "k", "", 0, 5, 6).read("a", "k", "", 0, 7, 8), Pass, ""},
		{"already there, by no write", newStory().read("a", "k", "", 0, 0.1, 0.2).write(create, "b", "k", "v2", 0, 3, 4).refused(present).
			write(create, "a", "k", "v1", 1, 5, 6).read("a", "k", "v1", 1, 7, 8), Fail, ""},
		{"conflict, over the version that is there", one().write(update, "b", "k", "v9", 0, 3, 4).over(1).refused(version), Fail,
			`update through b of "v9" replacing version 1, called at 3.000s, was refused, since the key had another version`},
		{"conflict, over a version that is gone", two().write(update, "b", "k", "v9", 0, 5, 6).over(1).refused(version), Pass, ""},
		{"conflict, next to the one that won", one().write(update, "a", "k", "v2", 2, 3, 6).over(1).write(update, "b", "k", "v9", 0, 4, 5).over(1).refused(version), Pass, ""},
		{"conflict, before the one that won", one().write(update, "b", "k", "v9", 0, 3, 4).over(1).refused(version).
			write(update, "a", "k", "v2", 2, 5, 6).over(1), Fail, ""},
		{"conflict, by a write of unknown outcome that was replaced unseen", one().write(update, "a", "k", "v2", 0, 3, 4).over(1).outcome(record.Unknown).
			write(update, "b", "k", "v9", 0, 5, 6).over(1).refused(version).write(patch, "a", "k", "v3", 3, 7, 8).read("b", "k", "v3", 3, 9, 10), Pass, ""},
		{"conflict, by a write of unknown outcome that had no effect", one().write(update, "a", "k", "v2", 0, 3, 4).over(1).outcome(record.Unknown).
			write(update, "b", "k", "v9", 0, 5, 6).over(1).refused(version).read("b", "k", "v1", 1, 9, 10), Fail, ""},
		{"conflict, by a delete of unknown outcome", one().write(remove, "a", "k", "", 0, 3, 4).outcome(record.Unknown).
			write(update, "b", "k", "v9", 0, 5, 6).over(1).refused(version).read("b", "k", "", 0, 9, 10), Pass, ""},
		{"a refusal that says nothing of the key", one().write(patch, "b", "k", "p", 0, 3, 4).refused(""), Pass, ""},
		{"already there, of which nothing else is known, and is not", newStory().write(create, "a", "k", "v1", 0, 1, 2).refused(present).read("b", "k", "", 0, 3, 4).
			write(create, "a", "k", "v2", 2, 5, 6), Fail, "had been refused at 2.000s, since the key existed"},
		{"already there, and created without a delete", newStory().write(create, "a", "k", "v1", 0, 1, 2).refused(present).
			write(create, "a", "k", "v2", 2, 5, 6).read("b", "k", "v2", 2, 7, 8), Fail, ""},
		{"already there, of which nothing else is known, and deleted", newStory().write(create, "a", "k", "v1", 0, 1, 2).refused(present).
			write(remove, "a", "k", "", 0, 3, 4).read("b", "k", "", 0, 5, 6), Pass, ""},
		{"already there, and deleted by a delete of unknown outcome", newStory().write(create, "a", "k", "v1", 0, 1, 2).refused(present).
			write(remove, "a", "k", "", 0, 1, 2).outcome(record.Unknown).write(create, "a", "k", "v2", 2, 3, 4).read("b", "k", "v2", 2, 5, 6), Pass, ""},
		{"already there, by a create of unknown outcome", newStory().write(create, "a", "k", "v1", 0, 1, 2).refused(present).
			write(create, "b", "k", "v2", 0, 1, 2).outcome(record.Unknown).write(remove, "a", "k", "", 0, 3, 4).read("b", "k", "", 0, 5, 6), Pass, ""},
		{"a create that was refused, and is there", newStory().write(create, "a", "k", "v1", 0, 1, 2).refused("").read("b", "k", "v1", 1, 3, 4).
			write(update, "b", "k", "v2", 2, 5, 6).over(1), Fail, ""},
		{"a create that was refused, of what was there before", newStory().write(create, "a", "k", "v1", 0, 1, 2).refused(present).read("b", "k", "v0", 1, 3, 4).
			write(update, "b", "k", "v2", 2, 5, 6).over(1), Pass, ""},
		{"an API server that is elsewhere", func() *story {
			s := one()
			for i := range 12 {
				f := 5 + float64(i)*3
				s.write(patch, "a", "k", fmt.Sprint("w", i), i+2, f, f+0.1)
				s.write(patch, "b", "k", fmt.Sprint("p", i), 0, f+1, f+1.1).refused(absent)
				s.write(update, "c", "k", fmt.Sprint("q", i), 0, f+2, f+2.1).over(i + 2).refused(version)
			}
			return s
		}(), Fail, "had been refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := named("linearizable").Judge(&facts.Case{Run: tt.story.run})
			if f.Verdict != tt.want || !strings.Contains(f.Sentence, tt.says) {
				t.Errorf("%s (want %s): %s\nwant %s", f.Verdict, tt.want, f.Sentence, tt.says)
			}
		})
	}
}

// A refusal for the content of a request is not by itself a failure of the cluster (see
// TestFalselyAbsent); one for a namespace that exists is.
func TestTurnedAway(t *testing.T) {
	for problem, want := range map[string]bool{
		`status 404 (NotFound): configmaps "k" not found`:       true,
		`status 409 (Conflict): the object has been modified`:   true,
		`status 404 (NotFound): namespaces "traffic" not found`: false,
		`status 503 (ServiceUnavailable): shutting down`:        false,
	} {
		if got := facts.TurnedAway(record.Op{Outcome: record.Refused, Error: problem}); got != want {
			t.Errorf("%s: %t, want %t", problem, got, want)
		}
	}
}

// A write that was refused since its key did not exist is not answered if it did, and counts as one
// that failed.
func TestFalselyAbsent(t *testing.T) {
	turned := func(deleted bool) *story {
		s := newStory().write(create, "node-1", "k", "v", 101, 4, 5)
		if deleted {
			s.write(remove, "node-1", "k", "", 0, 6, 7)
		}
		return notFound(s)
	}
	for deleted, want := range map[bool]bool{true: true, false: false} {
		for name, all := range facts.WriteSeries(turned(deleted).run) {
			if last := all[len(all)-1]; name == "client c-balancer" && last.Answered != want {
				t.Errorf("deleted %t: answered %t", deleted, last.Answered)
			}
		}
	}
	check := record.Check{Requirement: "HA-QR-012", Judge: "writes-succeed", Fault: "slow"}
	slow := func(deleted bool) *story {
		s := newStory().fault("slow", "latency", "node-2", "", 10, 30).write(create, "node-1", "k", "v", 101, 4, 5)
		if deleted {
			s.write(remove, "node-1", "k", "", 0, 6, 7)
		}
		for range 30 {
			notFound(s)
		}
		return s.traffic("node-3", 11, 15)
	}
	rule(t, check, []ruling{
		{name: "of keys that are there", want: Fail, says: "of 50 that were tried, 20 did", story: func() *story { return slow(false) }},
		{name: "of keys that were deleted", want: Pass, says: "20 of 20 writes succeeded", story: func() *story { return slow(true) }},
	})
}
