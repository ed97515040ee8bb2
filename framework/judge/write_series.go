package judge

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// try is a write of one client or prober.
type try struct {
	attempt
	// answered tells whether an API server did what was asked, or turned it away for
	// what it asked for: a lost compare-and-swap is no failure of the cluster.
	answered bool
}

// turnedAway tells whether an API server refused a request for what it asked for: a
// version that is not the newest or is no longer to be had, a key that is there already
// or is not there, an object that is none.
func turnedAway(op record.Op) bool {
	return op.Outcome == record.Refused && slices.ContainsFunc(turnedAwayWith, func(status string) bool { return strings.HasPrefix(op.Error, status) })
}

var turnedAwayWith = []string{"status 404 (NotFound)", "status 409 (", "status 410 (", "status 422 ("}

// writeSeries returns the writes that each client and each prober tried, in the order
// of their calls.
func writeSeries(run *record.Run) map[string][]try {
	series := map[string][]try{}
	for _, o := range run.Ops {
		if op := o.V; isRegister(op) && isWrite(op.Type) {
			a := attempt{op.Call, op.Return, op.Outcome == record.OK, describe(op)}
			name := "client " + op.Client
			series[name] = append(series[name], try{a, a.ok || turnedAway(op)})
		}
	}
	for _, p := range run.Probes {
		if pr := p.V; pr.Kind == record.ProbeWrite {
			name := "write probe through " + pr.Entrance
			if pr.Reused {
				name += " on a kept connection"
			}
			series[name] = append(series[name], try{attempt{pr.Start, pr.End, pr.OK, name + " " + at(pr.Start)}, pr.OK})
		}
	}
	for _, all := range series {
		slices.SortStableFunc(all, func(a, b try) int { return cmp.Compare(a.call, b.call) })
	}
	return series
}
