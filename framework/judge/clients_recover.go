package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func clientsRecover() definition {
	return definition{Doc{
		Name: "clients-recover",
		Guarantee: "A client that keeps one HTTP/2 connection through the balancer, as client-go does, sees errors for no longer than the bound, " +
			"also where that connection is to the API server that is hit. At least one client must be known to be there.",
		Source:     "k8s.io/apimachinery/pkg/util/net (ReadIdleTimeout 30s, PingTimeout 15s), kubernetes#48638, #87615",
		NeedsFault: true, NeedsBound: true,
		Params: map[string]string{"entrance": "the entrance that they go through (default balancer)"},
	}, judgeClientsRecover}
}

// clientLife is what one client with client-go's transport saw, in the order of starts.
type clientLife struct {
	name          string
	at            string // the server that it was connected to when the fault was called
	before, after []record.Probe
}

// clientLives returns the clients of an entrance, sorted by name. What is after begins with
// what was under way when the fault took effect and ends before it is healed.
func (m *matter) clientLives(entrance string, from, effect, heal record.Nanos) []*clientLife {
	all := map[string]*clientLife{}
	for _, p := range m.run.ClientProbes {
		pr := p.V
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
		slices.SortStableFunc(c.before, byStart)
		slices.SortStableFunc(c.after, byStart)
		if n := len(c.before); n > 0 {
			c.at = c.before[n-1].Server
		}
		lives = append(lives, c)
	}
	slices.SortFunc(lives, func(a, b *clientLife) int { return strings.Compare(a.name, b.name) })
	return lives
}

func judgeClientsRecover(m *matter) finding {
	entrance := m.param("entrance", "balancer")
	if !slices.Contains(m.run.Meta.Entrances, entrance) {
		return notApplicable("The cluster has no entrance %q.", entrance)
	}
	called, effect, heal := m.fault.injected.Called, m.fault.effect(), m.fault.healed.Called
	clients := m.clientLives(entrance, called, effect, heal)
	hit, seen := 0, []string{}
	var worst, latest time.Duration // of a client at the server that is hit; of one that was too late
	var late, open finding
	for _, c := range clients {
		for _, p := range c.before {
			if p.Start >= called-record.Nanos(calm) && !p.OK {
				return inconclusive("%s failed through %s before the fault already: %s", c.name, entrance, describeProbe(p))
			}
		}
		where := cmp.Or(c.at, "a server that is not known")
		there := slices.Contains(m.fault.nodes(), c.at)
		if there {
			hit++
		}
		took, last, lastOK := c.errors(effect)
		seen = append(seen, fmt.Sprintf("%s was connected to %s: errors for %s", c.name, where, short(took)))
		switch {
		case took > m.bound.Limit && took <= latest:
		case took > m.bound.Limit:
			latest = took
			late = failed("A client with a kept HTTP/2 connection through %s must see errors for no longer than %s after the %s: %s, connected to %s, saw them for %s (%s).",
				entrance, m.bound, m.fault.what(), c.name, where, short(took), describeProbe(*last)).
				took(took).rests(max(effect, spell(c.after, *last, m.bound.Limit)), last.End)
		case last != nil && (lastOK == nil || lastOK.Start < last.Start):
			open = inconclusive("%s, connected to %s, still failed when the fault was healed after %s, which is less than the bound of %s",
				c.name, where, short(time.Duration(heal-effect)), m.bound)
		case there:
			if hole, from := longestHole(c.after, effect, min(heal, effect+record.Nanos(m.bound.Limit))); hole > max(longestSilence, m.bound.Limit/4) {
				open = inconclusive("%s asked nothing for %s (from %s), so errors may have gone unseen", c.name, short(hole), when(from))
			}
			worst = max(worst, took)
		}
	}
	switch {
	case late.verdict == Fail:
		return late.shows(seen...)
	case hit == 0:
		return inconclusive("no client with a kept HTTP/2 connection was known to be connected to %s when the %s was called", and(m.fault.nodes()), m.fault.what()).shows(seen...)
	case open.verdict != "":
		return open.shows(seen...)
	}
	return passed("%d of %d clients with a kept HTTP/2 connection through %s were connected to %s when the %s took effect, and saw errors for %s, within %s; nor did the others for longer.",
		hit, len(clients), entrance, and(m.fault.nodes()), m.fault.what(), short(worst), m.bound).took(worst).shows(seen...)
}

// errors returns how long after the effect a client saw errors, the last one, and the last
// answer to what was asked since.
func (c *clientLife) errors(effect record.Nanos) (took time.Duration, last, lastOK *record.Probe) {
	for i := range c.after {
		switch p := &c.after[i]; {
		case !p.OK && (last == nil || p.End > last.End):
			last, took = p, time.Duration(p.End-effect)
		case p.OK && p.Start >= effect:
			lastOK = p
		}
	}
	return took, last, lastOK
}
