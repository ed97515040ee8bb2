package judges

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var endpointsMatch = Definition{Doc{
	Name:      "endpoints-match",
	Guarantee: "Endpoints and EndpointSlice of default/kubernetes hold exactly the addresses of the live API servers at all times, once these have had I + M to list themselves, or 2I + M where the list has never been complete.",
	Source:    "API server HA proposal, section 2; kube-apiserver (pkg/controlplane/controller/kubernetesservice, pkg/controlplane/reconcilers)",
}, judgeEndpointsMatch}

// judgeEndpointsMatch allows for API servers of a new cluster, which list themselves at their third
// attempt at worst: the first fails if another server is just creating the Service kubernetes
// ("provided IP is already allocated"), and the second, I later, conflicts with that of another server,
// which has not seen the lease yet.
func judgeEndpointsMatch(m *facts.Case) Finding {
	// API servers list themselves without either of these.
	from, to := m.Quiet("kube-controller-manager", "kube-scheduler")
	settling, err := verdict.ParseBound("I + M", m.Run.Meta.Settings)
	if err != nil {
		return Inconclusive("the check cannot be judged: %v", err)
	}
	starting, err := verdict.ParseBound("2I + M", m.Run.Meta.Settings)
	if err != nil {
		return Inconclusive("the check cannot be judged: %v", err)
	}
	want := m.APIServersAt(0) // as the cluster started
	if len(want) == 0 {
		return Inconclusive("the record names no node that runs an API server")
	}

	total, matching := 0, 0
	seen := map[string]bool{}
	var broken, brief, evidence []string
	var since, until record.Nanos
	type lateState struct {
		record.Timed[record.Endpoints]
		in    string
		limit verdict.Bound
	}
	var late *lateState // a wrong state after the API servers had started
	for _, c := range facts.Chains(m.Run) {
		states := c.Between(from, to+1)
		if len(states) == 0 {
			continue
		}
		seen[c.Source] = true
		complete := false // it was
		wrong := 0        // states in a row that do not match
		var begin record.Nanos
		var over *lateState // the last of them that comes too late
		var limit verdict.Bound
		for _, s := range states {
			total++
			if facts.SameSet(s.V.Addresses, want) {
				matching++
				late = cmp.Or(late, over)
				complete, wrong, over = true, 0, nil
				continue
			}
			if wrong == 0 {
				begin = s.At
			}
			wrong++
			limit = settling
			if !complete && len(s.V.Addresses) < len(want) && !slices.ContainsFunc(s.V.Addresses, func(a string) bool { return !slices.Contains(want, a) }) {
				limit = starting
			}
			if text.Span(from, s.At) > limit.Limit {
				over = &lateState{s, c.String(), limit}
			}
		}
		if wrong == 0 {
			continue
		}
		last := states[len(states)-1]
		evidence = append(evidence, c.String()+": ["+strings.Join(last.V.Addresses, " ")+"] from "+text.When(begin)+" to "+text.When(last.At))
		// One reading, or less time than the bound, may be a change under way, and API servers that
		// have just started may not have listed themselves yet.
		if wrong < 2 || m.Bound != nil && time.Duration(last.At-begin) <= m.Bound.Limit || text.Span(from, to) <= limit.Limit {
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
			strings.Join(want, " "), late.in, facts.Bracketed(late.V.Addresses), text.At(late.At), text.Short(text.Span(from, late.At)), late.limit, matching, total).
			counted("%d of %d states", matching, total).Rests(m.Lapse(late.At, late.At))
	case len(brief) > 0:
		return Inconclusive("%s did not hold exactly the live API servers at the end, but had deviated too briefly to rule out that they would still converge%s", text.And(brief), within).
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
