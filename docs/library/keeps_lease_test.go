package ha

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

const second = record.Nanos(time.Second)

// paused is a record as holdfast makes it: a minute of a healthy cluster, whose active
// controller manager stutters from 10 s to 25 s. It holds its lease as the given holders
// say, one a second.
func paused(pause string, holders func(at int) string) *record.Run {
	run := &record.Run{Complete: true, EndAt: 60 * second, Meta: record.Meta{
		Settings: map[string]time.Duration{"L": 6 * time.Second, "P": time.Second, "M": 2 * time.Second},
		Checks:   []record.Check{{Requirement: "ACME-001", Level: "MUST", Judge: "keeps-lease", Fault: "pauses", Bound: "L + P"}},
	}}
	for i := range 60 {
		at := record.Nanos(i) * second
		run.Harness = append(run.Harness, record.Timed[record.Harness]{At: at, V: record.Harness{Late: time.Millisecond}})
		if holder := holders(i); holder != "" {
			run.Leases = append(run.Leases, record.Timed[record.Lease]{At: at, V: record.Lease{
				Name: "kube-controller-manager", Via: "node-1", Holder: holder, Duration: 6, Renew: time.Unix(int64(i), 0),
			}})
		}
	}
	stutter := record.Fault{ID: "pauses", Name: "stutter", Node: "node-1", Component: "kube-controller-manager",
		Params: map[string]string{"pause": pause}, Phase: record.FaultInjected, Called: 10 * second, Effect: 10 * second, Proven: true}
	healed := stutter
	healed.Phase, healed.Called, healed.Effect = record.FaultHealed, 25*second, 25*second
	run.Faults = []record.Timed[record.Fault]{{At: 10 * second, V: stutter}, {At: 25 * second, V: healed}}
	run.Steadies = []record.Timed[record.Steady]{{V: record.Steady{Phase: "before", OK: true}}, {At: 59 * second, V: record.Steady{Phase: "after", OK: true}}}
	return run
}

// from returns holders of whom the second one takes over at a second.
func from(takeover int) func(int) string {
	return func(now int) string {
		if now >= takeover {
			return "node-2_b"
		}
		return "node-1_a"
	}
}

// Histories that keep the promise, that break it, and that do not show either.
func TestKeepsLease(t *testing.T) {
	for name, test := range map[string]struct {
		run  *record.Run
		want judge.Verdict
		says string
	}{
		"kept":                 {paused("3s", from(60)), judge.Pass, "node-1_a kept the lease of kube-controller-manager through the stutter of kube-controller-manager on node-1"},
		"lost in a pause":      {paused("3s", from(14)), judge.Fail, "node-1_a lost it to node-2_b"},
		"lost right after":     {paused("3s", from(30)), judge.Fail, "must keep its lease"},
		"lost long after":      {paused("3s", from(33)), judge.Pass, "kept the lease"},
		"lost long before":     {paused("3s", from(5)), judge.Pass, "node-2_b kept the lease"},
		"pauses are too long":  {paused("8s", from(18)), judge.Inconclusive, "covers pauses of 3s at most"},
		"no lease":             {paused("3s", func(int) string { return "" }), judge.Inconclusive, "no lease of kube-controller-manager"},
		"no lease before":      {paused("3s", func(s int) string { return map[bool]string{true: "node-1_a"}[s > 10] }), judge.Inconclusive, "does not show who held"},
		"no lease in it":       {paused("3s", func(s int) string { return map[bool]string{true: "node-1_a"}[s < 11] }), judge.Inconclusive, "was not seen to renew"},
		"record ends too soon": {cut(paused("3s", from(60)), 30*second), judge.Inconclusive, "ends less than"},
		"harness stood still":  {starved(paused("3s", from(14))), judge.Inconclusive, "the harness was starved"},
		"short lease as well":  {starved(short(paused("3s", from(14)))), judge.Fail, "node-1_a lost it to node-2_b"},
		"short lease but kept": {short(paused("3s", from(60))), judge.Pass, "kept the lease"},
	} {
		t.Run(name, func(t *testing.T) {
			result := judge.Evaluate(test.run, KeepsLease)[0]
			if result.Verdict != test.want || !strings.Contains(result.Sentence, test.says) {
				t.Errorf("%s: %s\nwant %s: …%s…", result.Verdict, result.Sentence, test.want, test.says)
			}
		})
	}
}

func cut(run *record.Run, at record.Nanos) *record.Run {
	run.EndAt = at
	return run
}

func starved(run *record.Run) *record.Run {
	run.Harness[12].V.Late = 5 * time.Second
	return run
}

// short has a lease that does not outlast the pauses.
func short(run *record.Run) *record.Run {
	for i := range run.Leases {
		run.Leases[i].V.Duration = 2
	}
	return run
}
