package judge

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestInvariants(t *testing.T) {
	for _, tt := range []struct {
		row string
		ruling
	}{
		{row: "HA-INV-010", ruling: ruling{name: "steady state not back", want: Fail, says: "within the recovery limit of 20s: after 20s it was not: node-2: no leader", story: func() *story {
			return removed().change(func(r *record.Run) {
				r.Steadies[1].V = record.Steady{Phase: "after", Took: 20 * time.Second, Limit: 20 * time.Second, Problems: []string{"node-2: no leader"}}
			})
		}}},
		{row: "HA-INV-010", ruling: ruling{name: "steady state not back, harness starved", want: Inconclusive, says: "the harness was starved: its timers fired up to 3s late, more than 2s", story: func() *story {
			return removed().change(func(r *record.Run) { r.Steadies[1].V.OK, r.Harness[58].V.Late = false, 3*time.Second })
		}}},
		{row: "HA-INV-010", ruling: ruling{name: "steady state back too late", want: Fail, says: "within the recovery limit of 20s: it took 25s", story: func() *story {
			return removed().change(func(r *record.Run) { r.Steadies[1].V.Took = 25 * time.Second })
		}}},
		{row: "HA-INV-010", ruling: ruling{name: "steady state back too late, but connections may back off for longer", want: Inconclusive, says: "the back-off of TCP and gRPC can take up to 27s", story: func() *story {
			return backsOff(25 * time.Second)
		}}},
		{row: "HA-INV-010", ruling: ruling{name: "steady state back later than connections back off", want: Fail, says: "within the recovery limit of 20s: it took 28s", story: func() *story {
			return backsOff(28 * time.Second)
		}}},
		{row: "HA-INV-010", ruling: ruling{name: "steady state back too late without such connections", want: Fail, says: "it took 25s", story: func() *story {
			return backsOff(26*time.Second).at(60).steady("after", true, 25*time.Second)
		}}},
		{row: "HA-INV-010", ruling: ruling{name: "steady state checked twice, worse the first time", want: Fail, says: "it took 25s", story: func() *story {
			return removed().change(func(r *record.Run) { r.Steadies[1].V.Took = 25 * time.Second }).at(60).steady("after", true, time.Second)
		}}},
		{row: "HA-INV-010", ruling: ruling{name: "steady state not checked after", want: Inconclusive, says: "no steady-state check after", story: func() *story {
			return removed().change(func(r *record.Run) { r.Steadies = r.Steadies[:1] })
		}}},
		{row: "HA-INV-010", ruling: ruling{name: "a lease is not renewed afterwards", want: Fail, says: "not steady again: lease of kube-scheduler (not within 43.8s, checked for 44s: node-1_a holds it and does not renew it).", story: func() *story {
			return removed().at(59).part("lease of kube-scheduler", 44*time.Second, "node-1_a holds it and does not renew it").part("live addresses in default/kubernetes", time.Second)
		}}},
		{row: "HA-INV-010", ruling: ruling{name: "an address never comes back, harness starved", want: Inconclusive, says: "the harness was starved", story: func() *story {
			return removed().change(func(r *record.Run) { r.Harness[58].V.Late = 3 * time.Second }).at(59).part("live addresses in default/kubernetes", 30*time.Second, "gone")
		}}},
		{row: "HA-INV-001", ruling: ruling{name: "not linearizable", want: Fail, says: "must be linearizable: that of lost is not", story: func() *story {
			return removed().write(record.OpCreate, "node-1", "lost", "x", 1, 20, 21).read("node-3", "lost", "", 0, 52, 53)
		}}},
		{row: "HA-INV-001", ruling: ruling{name: "not linearizable, harness starved", want: Fail, says: "must be linearizable", story: func() *story {
			return removed().write(record.OpCreate, "node-1", "lost", "x", 1, 20, 21).read("node-3", "lost", "", 0, 52, 53).
				change(func(r *record.Run) { r.Harness[52].V.Late = time.Minute })
		}}},
		{row: "HA-INV-009", ruling: ruling{name: "two leaders", want: Fail, says: "one leader per term", story: func() *story {
			s := removed()
			for t := 20; t < 30; t++ {
				s.at(float64(t)).etcd("node-3", "m3", 2)
			}
			return s
		}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.story()
			s.run.Meta.Checks = []record.Check{removal, {Requirement: "HA-TOP-003", Level: "SHOULD", Judge: "fault-domains"}}
			for i := range s.run.Meta.Nodes {
				s.run.Meta.Nodes[i].Zone = fmt.Sprint("zone-", i)
			}
			found := false
			for _, r := range Evaluate(s.run) {
				switch {
				case r.Requirement == tt.row && r.Verdict == tt.want && strings.Contains(r.Sentence, tt.says):
					found = true
				case !strings.HasPrefix(r.Requirement, "HA-INV-") && r.Judge != "harness" && r.Verdict != Pass:
					t.Errorf("%s (%s): %s: %s", r.Requirement, r.Judge, r.Verdict, r.Sentence)
				}
			}
			if !found {
				t.Errorf("%s is not %s saying %q", tt.row, tt.want, tt.says)
			}
		})
	}
}

func TestViolated(t *testing.T) {
	spans := []Span{{From: 1, To: 2}, {From: 5, To: 7, Culprit: true}, {From: 6, Culprit: true}, {From: 3, To: 9}}
	for name, c := range map[string]struct {
		found judges.Finding
		want  *Period
	}{
		"measured":                {judges.Failed("late").Rests(10, 40), &Period{From: 10, To: 40}},
		"measured to the end":     {judges.Failed("late").Rests(10, 100), &Period{From: 10, To: 100}},
		"shown":                   {judges.Finding{Verdict: Fail, Exhibit: &Exhibit{Spans: spans}}, &Period{From: 5, To: 7}},
		"measured over the run":   {judges.Failed("late").Rests(0, 100), nil},
		"shown, and none is odd":  {judges.Finding{Verdict: Fail, Exhibit: &Exhibit{Spans: spans[:1]}}, nil},
		"failed without a time":   {judges.Failed("wrong"), nil},
		"measured, but it passed": {judges.Passed("in time").Rests(10, 40), nil},
	} {
		if got := violated(c.found, 100); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestOutweighed(t *testing.T) {
	bound := &Bound{Limit: 4 * time.Second}
	for _, c := range []struct {
		queue    float64
		known    bool
		measured time.Duration
		want     bool
	}{
		{3.5, true, 16 * time.Second, true},
		{3.5, true, 14 * time.Second, false},
		{9, true, 40 * time.Second, true},
		{10, true, 16 * time.Second, false},
		{10, true, 60 * time.Second, false},
		{3.5, false, 16 * time.Second, false},
	} {
		if got := (strain{known: c.known, queue: c.queue}).outweighed(c.measured, bound); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if (strain{known: true}).outweighed(bound.Limit, nil) {
		t.Error("what is measured against nothing outweighs")
	}
}
