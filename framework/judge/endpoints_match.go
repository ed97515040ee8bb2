package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func endpointsMatch() definition {
	return definition{Doc{
		Name:      "endpoints-match",
		Guarantee: "Endpoints and EndpointSlice of default/kubernetes hold exactly the addresses of the live API servers, in the end and, once API servers have had I + M to list themselves, all the time.",
		Source:    "API server HA proposal, section 2",
	}, judgeEndpointsMatch}
}

// judgeEndpointsMatch allows for API servers that start at the same time and overwrite each
// other's list: the next reconciliation, after I at most, sets it right.
func judgeEndpointsMatch(m *matter) finding {
	// API servers list themselves without either of these.
	from, to := m.quiet("kube-controller-manager", "kube-scheduler")
	settling, err := ParseBound("I + M", m.run.Meta.Settings)
	if err != nil {
		return inconclusive("the check cannot be judged: %v", err)
	}
	var want []string
	for _, n := range m.nodesWith("kube-apiserver") {
		want = append(want, n.Address)
	}
	if len(want) == 0 {
		return inconclusive("the record names no node that runs an API server")
	}
	slices.Sort(want)

	total, matching := 0, 0
	seen := map[string]bool{}
	var broken, brief, evidence []string
	var since, until record.Nanos
	var late *record.Timed[record.Endpoints] // a wrong state after the API servers had started
	lateIn := ""
	for _, c := range chains(m.run) {
		states := c.between(from, to+1)
		if len(states) == 0 {
			continue
		}
		seen[c.source] = true
		wrong := 0 // states in a row that do not match
		var begin record.Nanos
		for i, s := range states {
			total++
			if sameSet(s.V.Addresses, want) {
				matching++
				if before := i - 1; wrong > 0 && span(from, states[before].At) > settling.Limit && late == nil {
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
		evidence = append(evidence, c.String()+": ["+strings.Join(last.V.Addresses, " ")+"] from "+when(begin)+" to "+when(last.At))
		// One reading, or less time than the bound, may be a change under way.
		if wrong < 2 || m.bound != nil && time.Duration(last.At-begin) <= m.bound.Limit {
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
	if m.bound != nil {
		within = " within " + m.bound.String()
	}
	switch {
	case len(broken) > 0:
		return failed("Endpoints and EndpointSlice of default/kubernetes must hold exactly the live API servers [%s]%s: for %s and to the end, %s; %d of %d states match.",
			strings.Join(want, " "), within, short(time.Duration(until-since)), and(broken), matching, total).
			counted("%d of %d states", matching, total).rests(m.lapse(since, until)).shows(evidence...)
	case late != nil:
		return failed("Endpoints and EndpointSlice of default/kubernetes must hold exactly the live API servers [%s] while nothing is broken: %s held %s %s, %s after the baseline, longer than %s; %d of %d states match.",
			strings.Join(want, " "), lateIn, bracketed(late.V.Addresses), at(late.At), short(span(from, late.At)), settling, matching, total).
			counted("%d of %d states", matching, total).rests(m.lapse(late.At, late.At))
	case len(brief) > 0:
		return inconclusive("%s did not hold exactly the live API servers at the end, but too short a time to tell%s", and(brief), within).
			counted("%d of %d states", matching, total).shows(evidence...)
	}
	for _, source := range sources {
		if !seen[source] {
			return inconclusive("the record has no reading of the %s of default/kubernetes", source)
		}
	}
	return passed("Endpoints and EndpointSlice of default/kubernetes hold exactly the %d live API servers [%s], as %d of %d states and the last of each entrance show.",
		len(want), strings.Join(want, " "), matching, total).counted("%d of %d states", matching, total)
}
