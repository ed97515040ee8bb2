package judge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// The same record gives the same bytes of verdicts: whatever the order in which Go
// goes through maps, which differs each time, and however many processors there are.
func TestSameRecordSameBytes(t *testing.T) {
	everyJudge := func(s *story) *story {
		for i, name := range Names() {
			s.run.Meta.Checks = append(s.run.Meta.Checks, record.Check{Requirement: fmt.Sprintf("HA-%03d", i), Level: "MUST",
				Judge: name, Bound: "T + I + M", Fault: "kill"})
		}
		return s
	}
	brokenKeys := func() *story {
		s := whole("r1")
		for i := range 20 { // stale reads on many keys, so that one has to be chosen
			key := fmt.Sprint("broken-", i)
			s.write(create, "node-1", key, "v1", 100*i+1, 3, 4).write(update, "node-2", key, "v2", 100*i+2, 5, 6).over(100*i+1).
				read("node-3", key, "v1", 100*i+1, 7, 8)
		}
		return s
	}
	long := func(run *record.Run) *story {
		run.Complete, run.EndAt = true, sec(1000)
		return &story{run: run}
	}
	for _, tt := range []struct {
		name  string
		story func() *story
	}{
		{"whole", func() *story { return whole("r1") }},
		{"many broken keys", brokenKeys},
		{"too late", func() *story { return everyJudge(tooLate()) }},
		{"leader killed", func() *story { return everyJudge(leaderKilled()) }},
		{"quorum lost", func() *story { return everyJudge(lost()) }},
		{"isolated", func() *story { return everyJudge(isolated()) }},
		{"members", func() *story { return everyJudge(member()) }},
		{"crossing", func() *story { return everyJudge(crossing()) }},
		{"listed", func() *story { return everyJudge(listed()) }},
		{"complete", func() *story { return everyJudge(complete()) }},
		{"taken", func() *story { return everyJudge(taken(20)) }},
		{"busy", func() *story { return everyJudge(busy(5, 40)) }},
		{"long", func() *story { return long(closedLoop(8, 3, 2000, 30)) }},
		{"long and stale", func() *story { return long(stale(closedLoop(8, 3, 2000, 30))) }},
		{"damaged", func() *story {
			return brokenKeys().change(func(r *record.Run) { r.Complete, r.Problem = false, "line 9: cut off" })
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
			var first []byte
			for i := range 20 {
				runtime.GOMAXPROCS(1 + i%2)
				got, err := json.MarshalIndent(Evaluate(tt.story().run), "", " ")
				if err != nil {
					t.Fatal(err)
				}
				if first == nil {
					first = got
				}
				if !bytes.Equal(first, got) {
					t.Fatalf("verdicts differ at try %d:\n%s", i+1, firstDifference(first, got))
				}
			}
		})
	}
}

// firstDifference gives the first line that differs.
func firstDifference(a, b []byte) string {
	as, bs := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range min(len(as), len(bs)) {
		if !bytes.Equal(as[i], bs[i]) {
			return fmt.Sprintf("- %s\n+ %s", as[i], bs[i])
		}
	}
	return fmt.Sprintf("%d lines, then %d", len(as), len(bs))
}
