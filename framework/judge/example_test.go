package judge_test

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// shortOutages is a user's own judge. It reads what it needs from the record and from the check,
// and describes its finding in a sentence.
var shortOutages = judge.Judge{
	Doc: judge.Doc{
		Name:       "short-outages",
		Guarantee:  "An entrance is never out of service for longer than the bound.",
		Source:     "our service description",
		NeedsFault: true, NeedsBound: true,
		Params: map[string]string{"entrance": "which one (default balancer)"},
	},
	Evaluate: func(c *judge.Case) judge.Finding {
		entrance := c.Param("entrance", "balancer")
		var probes []record.Probe
		for _, p := range c.Run.Probes {
			if p.V.Entrance == entrance {
				probes = append(probes, p.V)
			}
		}
		if len(probes) == 0 {
			return judge.Finding{Verdict: judge.Inconclusive, Sentence: "the record has no probe of " + entrance}
		}
		var longest time.Duration
		for _, outage := range judge.Outages(probes) {
			longest = max(longest, outage.AtLeast())
			if outage.AtLeast() > c.Bound.Limit {
				return judge.Finding{
					Verdict: judge.Fail,
					Sentence: fmt.Sprintf("%s must not be out of service for longer than %s: after the %s it was for %s.",
						entrance, c.Bound, c.Fault, outage.AtLeast()),
					Took: outage.AtLeast(),
					// Nothing is measured well while the harness is starved of computing time.
					From: outage.After, To: outage.Before,
				}
			}
		}
		return judge.Finding{
			Verdict:  judge.Pass,
			Sentence: fmt.Sprintf("After the %s %s was out of service for %s at most, within %s.", c.Fault, entrance, longest, c.Bound),
			Took:     longest,
		}
	},
}

// The rules for built-in judges apply to a user's own judge, which runs along with them.
func ExampleEvaluate() {
	run := recorded(7 * time.Second)
	for _, result := range judge.Evaluate(run, shortOutages) {
		if result.Requirement == "OUR-001" {
			fmt.Println(result.Verdict, result.Measured)
			fmt.Println(result.Sentence)
		}
	}
	// Output:
	// fail 6s
	// balancer must not be out of service for longer than 4s (H + M, H = 2s, M = 2s): after the kill of kube-apiserver on node-2 it was for 6s.
}

// recorded replaces record.Read: a minute with an outage of the balancer.
func recorded(outage time.Duration) *record.Run {
	const second = record.Nanos(time.Second)
	run := &record.Run{Complete: true, EndAt: 60 * second, Meta: record.Meta{
		Settings: map[string]time.Duration{"H": 2 * time.Second, "M": 2 * time.Second},
		Checks:   []record.Check{{Requirement: "OUR-001", Level: "MUST", Judge: "short-outages", Fault: "lost", Bound: "H + M"}},
	}}
	for at := record.Nanos(0); at < run.EndAt; at += second {
		ok := at < 20*second || at >= 20*second+record.Nanos(outage)
		run.Harness = append(run.Harness, record.Timed[record.Harness]{At: at})
		run.Probes = append(run.Probes, record.Timed[record.Probe]{At: at, V: record.Probe{Entrance: "balancer", Start: at, End: at + 1, OK: ok}})
	}
	fault := record.Fault{ID: "lost", Name: "kill", Node: "node-2", Component: "kube-apiserver", Phase: record.FaultInjected, Called: 20 * second, Proven: true}
	healed := fault
	healed.Phase, healed.Called = record.FaultHealed, 40*second
	run.Faults = []record.Timed[record.Fault]{{At: fault.Called, V: fault}, {At: healed.Called, V: healed}}
	run.Steadies = []record.Timed[record.Steady]{{V: record.Steady{Phase: "before", OK: true}}, {At: run.EndAt, V: record.Steady{Phase: "after", OK: true}}}
	return run
}

func ExampleFind() {
	doc, err := judge.Find("short-outages", shortOutages)
	fmt.Println(doc.Guarantee, err)
	doc, err = judge.Find("linearizable", shortOutages)
	fmt.Println(doc.Name, err)
	// Output:
	// An entrance is never out of service for longer than the bound. <nil>
	// linearizable <nil>
}

// Bounds follow the cluster's settings: a cluster that elects more slowly has more time.
func ExampleParseBound() {
	bound, err := judge.ParseBound("2E + M", map[string]time.Duration{"E": time.Second, "M": 2 * time.Second})
	fmt.Println(bound, err)
	// Output: 4s (2E + M, E = 1s, M = 2s) <nil>
}
