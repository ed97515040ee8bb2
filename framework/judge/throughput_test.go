package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// rateStory has a fault from 10 s to 20 s, a steady state at 25 s, and clients that
// get that many operations per second before the fault and after the steady state.
func rateStory(before, after float64) *story {
	s := newStory(record.Check{Requirement: "X", Level: "MUST", Judge: "throughput", Fault: "f"}).fault("f", "kill", "node-1", "etcd", 10, 20)
	s.at(25).steady("after", true, time.Second)
	acks := func(from, to, perSecond float64) {
		for t := range steps(from, to, 1/perSecond) {
			s.read("a", "k", "v", 1, t, t+0.001)
		}
	}
	acks(0, 10, before)
	acks(10, 25, 1) // the time between does not count
	acks(25, 50, after)
	s.at(50)
	return add(s, &s.run.Phases, record.Phase{Name: "final reads"})
}

func TestThroughput(t *testing.T) {
	least := func(s *story, least string) *story {
		s.run.Meta.Checks[0].Params = map[string]string{"least": least}
		return s
	}
	for _, tt := range []struct {
		name  string
		story *story
		want  Verdict
		says  string
	}{
		{"as before", rateStory(20, 20), Pass, "100 % of the rate before"},
		{"just enough", rateStory(20, 10.5), Pass, "53 %"},
		{"too little", rateStory(20, 8), Fail, "at least 50 % of their rate of acknowledged operations before the first fault: they reached 40 %, 8.0 acknowledged"},
		{"too little for this check", least(rateStory(20, 16), "0.9"), Fail, "at least 90 %"},
		{"enough for this check", least(rateStory(20, 5), "0.2"), Pass, ""},
		{"nothing at all", rateStory(20, 0.01), Fail, "they reached 0 %"},
		{"no part", least(rateStory(20, 20), "most"), Inconclusive, `least = "most"`},
		{"more than all", least(rateStory(20, 20), "1.5"), Inconclusive, `least = "1.5"`},
		{"too little before", rateStory(2, 2), Inconclusive, "too little traffic before the first fault: 20"},
		{"refused operations are none", func() *story {
			s := rateStory(20, 20)
			for i := range s.run.Ops {
				if s.run.Ops[i].V.Call > sec(25) {
					s.run.Ops[i].V.Outcome = record.Refused
				}
			}
			return s
		}(), Fail, "they reached 0 %"},
		{"operations of checks are none", func() *story {
			s := rateStory(20, 20)
			for i := range s.run.Ops {
				if s.run.Ops[i].V.Call > sec(25) {
					s.run.Ops[i].V.Purpose = "cross-read"
				}
			}
			return s
		}(), Fail, "they reached 0 %"},
		{"lists count", func() *story {
			s := rateStory(20, 8)
			for at := range steps(25, 50, 0.1) {
				s.at(at)
				add(s, &s.run.Lists, record.List{Call: sec(at), Return: sec(at), Outcome: record.OK})
			}
			return s
		}(), Pass, "90 %"},
		{"short before", func() *story {
			s := rateStory(20, 20)
			s.run.Steadies[0].At = sec(7)
			return s
		}(), Inconclusive, "the traffic before the first fault lasted 3s"},
		{"short after", func() *story {
			s := rateStory(20, 20)
			s.run.Phases[0].At = sec(28)
			return s
		}(), Inconclusive, "the traffic after the last healing lasted 3s"},
		{"never steady", func() *story {
			s := rateStory(20, 20)
			s.run.Steadies = s.run.Steadies[:1]
			return s
		}(), Inconclusive, "not seen to be steady"},
		{"another fault never healed", func() *story {
			s := rateStory(20, 20).fault("g", "kill", "node-2", "etcd", 12, 14)
			s.run.Faults = s.run.Faults[:len(s.run.Faults)-1]
			return s
		}(), Inconclusive, "was not healed"},
		{"starved", func() *story {
			s := rateStory(20, 8)
			return s.at(30.5).harness(2 * time.Second)
		}(), Inconclusive, "starved"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := tt.story.run
			slices.SortStableFunc(run.Harness, func(a, b record.Timed[record.Harness]) int { return int(a.At - b.At) })
			slices.SortStableFunc(run.Steadies, func(a, b record.Timed[record.Steady]) int { return int(a.At - b.At) })
			check := run.Meta.Checks[0]
			c := &evaluator{run: run, faults: facts.Injections(run)}
			_, f := c.judge(check)
			if f.Verdict != tt.want || !strings.Contains(f.Sentence, tt.says) {
				t.Errorf("%s (want %s): %s\nwant %s", f.Verdict, tt.want, f.Sentence, tt.says)
			}
		})
	}
}
