package judge

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
)

// tangle is a history that is illegal only as a whole: of concurrent creates and deletes there
// are two creates too many. Only the search can find that, and it has more orders to try than
// time allows.
func tangle(n int) *story {
	s := newStory()
	for i := range n {
		s.write(create, "a", "k", fmt.Sprint("v", i), 0, 1, 2).by(fmt.Sprint("creator-", i))
		if i > 1 {
			s.write(remove, "b", "k", "", 0, 1, 2).by(fmt.Sprint("remover-", i))
		}
	}
	return s.write(create, "a", "other", "v", 1, 1, 2).read("a", "other", "v", 1, 3, 4)
}

func TestSearchKeepsItsTime(t *testing.T) {
	const limit = 100 * time.Millisecond
	worked := func() time.Duration { // a busy machine does not count
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	begin := worked()
	f := judges.JudgeLinearizable(&facts.Case{Run: tangle(40).run}, limit, judges.SearchRoom)
	if took := worked() - begin; took > limit+time.Second {
		t.Errorf("it took %s of processor time, the limit is %s", took, limit)
	}
	if f.Verdict != Inconclusive || !strings.Contains(f.Sentence, "ran out of time (100ms)") {
		t.Errorf("%s: %s", f.Verdict, f.Sentence)
	}
	if f.Exhibit == nil || len(f.Exhibit.Spans) > judges.ShowLimit || !slices.ContainsFunc(f.Exhibit.Spans, func(s Span) bool { return s.Culprit }) {
		t.Errorf("what is shown of it: %+v", f.Exhibit)
	}
}

// With practically no time limit, memory is the limit, and every run has the same result.
func TestSearchKeepsItsRoom(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const room = 16 << 20
	f := judges.JudgeLinearizable(&facts.Case{Run: tangle(40).run}, time.Hour, room)
	runtime.ReadMemStats(&after)
	if f.Verdict != Inconclusive || !strings.Contains(f.Sentence, "memory (16 MiB)") {
		t.Errorf("%s: %s", f.Verdict, f.Sentence)
	}
	// The garbage collector lets it grow to twice what is in use.
	took := int64(after.HeapSys) - int64(before.HeapSys)
	t.Logf("the heap grew by %d MiB", took>>20)
	if took > 4*room {
		t.Errorf("the heap grew by %d MiB", took>>20)
	}
}

// A key that cannot be decided does not hide another one that is illegal.
func TestOtherKeysAreDecided(t *testing.T) {
	s := tangle(40)
	for _, op := range tangle(4).run.Ops {
		op.V.Key = "z" + op.V.Key
		s.run.Ops = append(s.run.Ops, op)
	}
	if f := judges.JudgeLinearizable(&facts.Case{Run: s.run}, time.Hour, 16<<20); f.Verdict != Fail {
		t.Errorf("%s: %s", f.Verdict, f.Sentence)
	}
}

func TestSmallTangleIsDecided(t *testing.T) {
	f := judges.JudgeLinearizable(&facts.Case{Run: tangle(4).run}, judges.LinearizeLimit, judges.SearchRoom)
	if f.Verdict != Fail || f.Exhibit == nil || len(f.Exhibit.Spans) != 6 {
		t.Errorf("%s: %s\n%+v", f.Verdict, f.Sentence, f.Exhibit)
	}
}
