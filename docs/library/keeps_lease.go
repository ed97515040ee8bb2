package ha

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// KeepsLease is Acme's promise that short pauses of a host never cause a failover.
var KeepsLease = judge.Judge{
	Doc: judge.Doc{
		Name: "keeps-lease",
		Guarantee: "The active instance of an elected component stays active through short pauses of its host, and for the " +
			"bound afterwards.",
		Source:     "Acme's service description",
		NeedsFault: true, NeedsBound: true,
		Params: map[string]string{"upTo": "the longest pause that the promise covers: a duration; default 3s"},
	},
	Evaluate: keepsLease,
}

func keepsLease(c *judge.Case) judge.Finding {
	component := c.Fault.Injected.Component
	inconclusive := func(format string, args ...any) judge.Finding {
		return judge.Finding{Verdict: judge.Inconclusive, Sentence: fmt.Sprintf(format, args...)}
	}
	upTo, err := time.ParseDuration(c.Param("upTo", "3s"))
	if err != nil {
		return inconclusive("parameter upTo: %v", err)
	}
	if pause, err := time.ParseDuration(c.Fault.Injected.Params["pause"]); err != nil || pause > upTo {
		return inconclusive("the promise covers pauses of %s at most, those of the %s lasted %s", upTo, c.Fault, c.Fault.Injected.Params["pause"])
	}
	from := c.Fault.From()
	to := c.Fault.To() + record.Nanos(c.Bound.Limit)
	var holder string       // when the fault began
	var lasts time.Duration // its lease
	var renewals []time.Time
	for _, l := range c.Run.Leases {
		switch {
		case l.V.Name != component || l.V.Holder == "":
		case l.At < from:
			holder, lasts = l.V.Holder, time.Duration(l.V.Duration)*time.Second
		case l.At > to:
		case holder == "":
			return inconclusive("the record does not show who held the lease of %s before the %s", component, c.Fault)
		case l.V.Holder != holder:
			lost := judge.Finding{
				Verdict: judge.Fail,
				Sentence: fmt.Sprintf("The active %s must keep its lease through the %s and for %s afterwards: %s lost it to %s.",
					component, c.Fault, c.Bound, holder, l.V.Holder),
				Evidence: []string{
					fmt.Sprintf("read through %s %.1fs after the fault began: held by %s since %s",
						l.V.Via, time.Duration(l.At-from).Seconds(), l.V.Holder, l.V.Acquire.Format(time.TimeOnly)),
					fmt.Sprintf("its lease lasts %s, and the promise covers pauses of %s", lasts, upTo),
				},
			}
			if lasts > upTo {
				// A harness that stood still may have paused it for longer than it was meant to. A
				// lease that is too short on its own is not the harness's fault.
				lost.From, lost.To = from, l.At
			}
			return lost
		default:
			lasts = time.Duration(l.V.Duration) * time.Second
			if !slices.ContainsFunc(renewals, l.V.Renew.Equal) {
				renewals = append(renewals, l.V.Renew)
			}
		}
	}
	switch {
	case holder == "":
		return inconclusive("the record has no lease of %s", component)
	case c.Run.EndAt < to:
		return inconclusive("the record ends less than %s after the %s was healed", c.Bound, c.Fault)
	case len(renewals) < 2:
		return inconclusive("%s was not seen to renew its lease of %s", holder, component)
	}
	return judge.Finding{
		Verdict:  judge.Pass,
		Sentence: fmt.Sprintf("%s kept the lease of %s through the %s and for %s afterwards.", holder, component, c.Fault, c.Bound),
		Measured: fmt.Sprintf("%d renewals", len(renewals)),
	}
}
