package judges

import (
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func endpointsMatch() Definition {
	return Definition{verdict.Doc{
		Name:      "endpoints-match",
		Guarantee: "Endpoints and EndpointSlice of default/kubernetes hold exactly the addresses of the live API servers at all times, once these have had I + M to list themselves.",
		Source:    "API server HA proposal, section 2",
	}, judgeEndpointsMatch}
}

// judgeEndpointsMatch allows for API servers that start at the same time and overwrite each
// other's list: the next reconciliation, after I at most, sets it right.
func judgeEndpointsMatch(m *facts.Matter) Finding {
	// API servers list themselves without either of these.
	from, to := m.Quiet("kube-controller-manager", "kube-scheduler")
	settling, err := verdict.ParseBound("I + M", m.Run.Meta.Settings)
	if err != nil {
		return Inconclusive("the check cannot be judged: %v", err)
	}
	want := m.APIServerAddresses()
	if len(want) == 0 {
		return Inconclusive("the record names no node that runs an API server")
	}

	total, matching := 0, 0
	seen := map[string]bool{}
	var broken, brief, evidence []string
	var since, until record.Nanos
	var late *record.Timed[record.Endpoints] // a wrong state after the API servers had started
	lateIn := ""
	for _, c := range facts.Chains(m.Run) {
		states := c.Between(from, to+1)
		if len(states) == 0 {
			continue
		}
		seen[c.Source] = true
		wrong := 0 // states in a row that do not match
		var begin record.Nanos
		for i, s := range states {
			total++
			if facts.SameSet(s.V.Addresses, want) {
				matching++
				if before := i - 1; wrong > 0 && text.Span(from, states[before].At) > settling.Limit && late == nil {
					late = &states[before]
					lateIn = c.String()
				}
				wrong = 0
				continue
			}
			if wrong == 0 {
				begin = s.At
			}
			wrong++
		}
		if wrong == 0 {
			continue
		}
		last := states[len(states)-1]
		evidence = append(evidence, c.String()+": ["+strings.Join(last.V.Addresses, " ")+"] from "+text.When(begin)+" to "+text.When(last.At))
		// One reading, or less time than the bound, may be a change under way, and API servers that
		// have just started may not have listed themselves yet.
		if wrong < 2 || m.Bound != nil && time.Duration(last.At-begin) <= m.Bound.Limit || text.Span(from, to) <= settling.Limit {
			brief = append(brief, c.String())
			continue
		}
		broken = append(broken, c.String()+" holds ["+strings.Join(last.V.Addresses, " ")+"]")
		if since == 0 || begin < since {
			since = begin
		}
		until = max(until, last.At)
	}
	within := ""
	if m.Bound != nil {
		within = " within " + m.Bound.String()
	}
	switch {
	case len(broken) > 0:
		return Failed("Endpoints and EndpointSlice of default/kubernetes must hold exactly the live API servers [%s]%s: for %s up to the end, %s; %d of %d states match.",
			strings.Join(want, " "), within, text.Short(time.Duration(until-since)), text.And(broken), matching, total).
			counted("%d of %d states", matching, total).Rests(m.Lapse(since, until)).Shows(evidence...)
	case late != nil:
		return Failed("Endpoints and EndpointSlice of default/kubernetes must hold exactly the live API servers [%s] while nothing is broken: %s held %s %s, %s after the baseline, longer than %s; %d of %d states match.",
			strings.Join(want, " "), lateIn, facts.Bracketed(late.V.Addresses), text.At(late.At), text.Short(text.Span(from, late.At)), settling, matching, total).
			counted("%d of %d states", matching, total).Rests(m.Lapse(late.At, late.At))
	case len(brief) > 0:
		return Inconclusive("%s did not hold exactly the live API servers at the end, but for too short a time to rule out that they still would%s", text.And(brief), within).
			counted("%d of %d states", matching, total).Shows(evidence...)
	}
	for _, source := range facts.Sources {
		if !seen[source] {
			return Inconclusive("the record has no reading of the %s of default/kubernetes", source)
		}
	}
	return Passed("Endpoints and EndpointSlice of default/kubernetes hold exactly the %d live API servers [%s], as %d of %d states and the last of each entrance show.",
		len(want), strings.Join(want, " "), matching, total).counted("%d of %d states", matching, total)
}
