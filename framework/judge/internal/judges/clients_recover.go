package judges

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var clientsRecover = Definition{Doc{
	Name: "clients-recover",
	Guarantee: "A client that keeps one HTTP/2 connection through the balancer, as client-go does, sees errors for no longer than the bound, " +
		"even if that connection leads to the API server that is hit. At least one client must be known to be connected to that one.",
	Source:     "k8s.io/apimachinery/pkg/util/net (ReadIdleTimeout 30s, PingTimeout 15s), kubernetes#48638, #87615",
	NeedsFault: true, NeedsBound: true, Coarser: true,
	Params: map[string]string{
		"entrance": "the entrance that they use (default balancer)",
		"faults":   "IDs of further injections like the check's fault, separated by commas: one of them must hit an API server that a client is connected to, and clients must recover from each",
	},
}, judgeClientsRecover}

// clientLife is what one client with client-go's transport saw, in the order of starts.
type clientLife struct {
	name          string
	at            string // the server that it was connected to when the fault was called
	before, after []record.Probe
}

// clientLives returns the clients of an entrance, sorted by name. after starts with what was in
// flight when the fault took effect and ends before it is healed.
func clientLives(m *facts.Case, entrance string, from, effect, heal record.Nanos) []*clientLife {
	all := map[string]*clientLife{}
	for _, pr := range record.Each(m.Run.ClientProbes) {
		if pr.Entrance != entrance {
			continue
		}
		c := all[pr.Client]
		if c == nil {
			c = &clientLife{name: pr.Client}
			all[pr.Client] = c
		}
		switch {
		case pr.End < from:
			c.before = append(c.before, pr)
		case pr.End >= effect && pr.Start < heal:
			c.after = append(c.after, pr)
		}
	}
	var lives []*clientLife
	for _, c := range all {
		slices.SortStableFunc(c.before, facts.ByStart)
		slices.SortStableFunc(c.after, facts.ByStart)
		if n := len(c.before); n > 0 {
			c.at = c.before[n-1].Server
		}
		lives = append(lives, c)
	}
	slices.SortFunc(lives, func(a, b *clientLife) int { return strings.Compare(a.name, b.name) })
	return lives
}

func judgeClientsRecover(m *facts.Case) Finding {
	entrance := m.Param("entrance", "balancer")
	if !slices.Contains(m.Run.Meta.Entrances, entrance) {
		return notApplicable("The cluster has no entrance %q.", entrance)
	}
	var open, recovered, none *Finding
	for _, inj := range m.Together() {
		of := *m
		of.Fault = inj
		f, there := recoversFrom(&of, entrance)
		switch {
		case f.Verdict == verdict.Fail:
			return f
		case !there:
			none = cmp.Or(none, &f)
		case f.Verdict != verdict.Pass:
			open = &f
		case recovered == nil || *f.Value > *recovered.Value:
			recovered = &f
		}
	}
	return *cmp.Or(open, recovered, none)
}

// recoversFrom judges the clients of an entrance under one fault. It returns false if none was
// connected to what the fault hit.
func recoversFrom(m *facts.Case, entrance string) (Finding, bool) {
	called, effect, heal := m.Fault.Injected.Called, m.Fault.Effect(), m.Fault.Healed.Called
	clients := clientLives(m, entrance, called, effect, heal)
	hit, seen := 0, []string{}
	var worst, latest time.Duration // of a client at the server that is hit; of one that was too late
	var late, open Finding
	for _, c := range clients {
		for _, p := range c.before {
			if p.Start >= called-record.Nanos(facts.QuietPeriod) && !p.OK {
				return Inconclusive("%s already failed through %s before the fault: %s", c.name, entrance, facts.DescribeProbe(p)), true
			}
		}
		where := cmp.Or(c.at, "an unknown server")
		there := slices.Contains(m.Fault.Nodes(), c.at)
		if there {
			hit++
		}
		took, last, lastOK, by := errorsIn(c.after, effect, heal)
		seen = append(seen, fmt.Sprintf("%s was connected to %s: errors for %s", c.name, where, text.Short(took)))
		switch {
		case took > m.Bound.Limit && took <= latest:
		case took > m.Bound.Limit:
			latest = took
			late = Failed("A client with a persistent HTTP/2 connection through %s must not see errors for longer than %s after the %s: %s, connected to %s, saw them for %s (%s).",
				entrance, m.Bound, m.Fault.What(), c.name, where, text.Short(took), facts.DescribeProbe(*last)).
				Took(took).Rests(max(effect, facts.OverloadSince(c.after, *last, m.Bound.Limit)), last.End)
		case last != nil && (lastOK == nil || lastOK.Start < last.Start), time.Duration(heal-effect) <= m.Bound.Limit && by.lacks() != "":
			open = Inconclusive("%s, connected to %s, still failed when the fault was healed after %s, which is less than the bound of %s",
				c.name, where, text.Short(time.Duration(heal-effect)), m.Bound)
		case there:
			if hole, from := facts.LongestHole(c.after, effect, min(heal, effect+record.Nanos(m.Bound.Limit))); hole > min(max(facts.LongestSilence, m.Bound.Limit/4), m.Bound.Limit/2) {
				open = Inconclusive("%s made no request for %s (from %s), so errors may have gone unseen", c.name, text.Short(hole), text.When(from))
			}
			worst = max(worst, took)
		}
	}
	switch {
	case late.Verdict == verdict.Fail:
		return late.Shows(seen...), true
	case hit == 0 && onStandby(m):
		return notApplicable("The API server on %s was on standby: the balancer sends clients to one API server at a time.", text.And(m.Fault.Nodes())).Shows(seen...), false
	case hit == 0:
		return Inconclusive("no client with a persistent HTTP/2 connection was known to be connected to %s when the %s was called", text.And(m.Fault.Nodes()), m.Fault.What()).Shows(seen...), false
	case open.Verdict != "":
		return open.Shows(seen...), true
	}
	return Passed("%d of %d clients with a persistent HTTP/2 connection through %s were connected to %s when the %s took effect, and saw errors for %s, within %s, as did the others.",
		hit, len(clients), entrance, text.And(m.Fault.Nodes()), m.Fault.What(), text.Short(worst), m.Bound).Took(worst).Shows(seen...), true
}
