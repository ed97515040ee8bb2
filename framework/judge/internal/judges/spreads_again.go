package judges

import (
	"cmp"
	"math"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var spreadsAgain = Definition{Doc{
	Name: "spreads-again",
	Guarantee: "Once an API server has been back for as long as the bound, the HTTP/2 connections that clients keep through the balancer are closed from time to time, " +
		"by --goaway-chance or by the balancer, and new ones reach that API server at least as often as by chance. This requires clients that keep their connections and make many requests (action kept-reads).",
	Source:     "kubernetes#88567, #48610",
	NeedsFault: true, NeedsBound: true, Killed: true,
}, judgeSpreadsAgain}

// mostGoaway is the greatest --goaway-chance that an API server accepts
// (k8s.io/apiserver/pkg/server/options/server_run_options.go). If none is set, the judge assumes
// this chance before it concludes that nothing closes connections.
const mostGoaway = 0.02

// keeping describes the connections that clients keep, in a period.
type keeping struct {
	clients  map[string]bool // that made requests
	moved    map[string]bool // of these: to a new connection
	requests int             // on kept connections
	made     int             // new connections that replaced kept ones
	reached  int             // of these: to the API server that came back
	unnamed  int             // responses of an unknown server
}

// kept returns what happened to the connections through an entrance. A client's first connection
// does not replace a closed one.
func kept(m *facts.Case, entrance, node string, from, to record.Nanos) keeping {
	k, had := keeping{clients: map[string]bool{}, moved: map[string]bool{}}, map[string]bool{}
	var probes []record.Probe
	for _, p := range m.Run.ClientProbes {
		if p.V.Entrance == entrance && p.V.Status > 0 && p.V.Start <= to {
			probes = append(probes, p.V)
		}
	}
	slices.SortStableFunc(probes, facts.ByStart)
	for _, p := range probes {
		first := !had[p.Client]
		had[p.Client] = true
		if p.Start < from || first {
			continue
		}
		k.clients[p.Client] = true
		switch {
		case p.Server == "":
			k.unnamed++
		case !p.Reused:
			k.made++
			k.moved[p.Client] = true
			if p.Server == node {
				k.reached++
			}
		default:
			k.requests++
		}
	}
	return k
}

func judgeSpreadsAgain(m *facts.Case) Finding {
	const entrance = "balancer"
	if !slices.Contains(m.Run.Meta.Entrances, entrance) {
		return notApplicable("The cluster has no load balancer.")
	}
	node, back := m.Fault.Node(), m.Fault.HealEffect()
	if m.Address(node) == "" {
		return Inconclusive("the fault hit %q, which is not a control-plane node", m.Fault.Injected.Target)
	}
	from, to := back+record.Nanos(m.Bound.Limit), m.UntilNext(back)
	if m.StandsBy(node, back, to) {
		return notApplicable("The API server on %s is on standby after its return: the balancer sends clients to one API server at a time.", node)
	}
	servers := len(m.NodesWith("kube-apiserver"))
	chance := m.Run.Meta.GoawayChance
	k := kept(m, entrance, node, from, to)
	// The probability that this many requests leave every connection open.
	open := math.Pow(1-cmp.Or(chance, mostGoaway), float64(k.requests))
	unlucky := facts.AtMost(k.reached, k.made, 1/float64(max(1, servers)))
	asked := func(f Finding) Finding { return f.counted("%d of %d new connections", k.reached, k.made) }
	switch {
	case len(k.clients) == 0:
		return Inconclusive("no client that keeps its HTTP/2 connection made a request through the balancer once the API server on %s had been back for %s (action kept-reads)", node, m.Bound)
	case k.unnamed > 0:
		return Inconclusive("which API server clients are connected to is not known: %d answers came from a server whose certificate names no node, or several", k.unnamed)
	case !m.Spread(entrance):
		return Inconclusive("all clients of the balancer were seen on one API server before the %s, so it may choose by their address: whether it spreads others is not known", m.Fault.What())
	case k.made == 0 && open >= facts.Unfair:
		return Inconclusive("%d requests on persistent HTTP/2 connections are too few to conclude that nothing closes such connections (--goaway-chance=%g)", k.requests, chance)
	// A count of requests, which is as conclusive on a busy machine.
	case k.made == 0 && chance > 0:
		return asked(Failed("Persistent HTTP/2 connections must be spread again once an API server is back: with --goaway-chance=%g none was closed in %d requests of %d clients more than %s after the healing of the %s.",
			chance, k.requests, len(k.clients), m.Bound, m.Fault.What()))
	case k.made == 0:
		return asked(Failed("Persistent HTTP/2 connections must be spread again once an API server is back: nothing closed those of %d clients in %d requests, %s to %s after the healing of the %s, so those of clients that had to leave %s stay where they are. Set --goaway-chance on the API servers (%g at most), or have the balancer close connections.",
			len(k.clients), k.requests, m.Bound, text.Short(text.Span(back, to)), m.Fault.What(), node, mostGoaway))
	case unlucky < facts.Unfair:
		return asked(Failed("Persistent HTTP/2 connections must be spread again once an API server is back: %d of %d that clients opened again through the balancer more than %s after the healing of the %s reached %s. Have the balancer choose among all API servers that are ready.",
			k.reached, k.made, m.Bound, m.Fault.What(), node).Rests(from, to))
	case unlucky < facts.Doubtful || k.reached == 0:
		return Inconclusive("%d of %d HTTP/2 connections that clients opened again more than %s after the API server on %s was back reached it, too few to decide whether they are spread", k.reached, k.made, m.Bound, node)
	case chance == 0 && 2*len(k.moved) < len(k.clients):
		// A connection lost for another reason does not show that a balancer closes them.
		return Inconclusive("%d of %d clients made a new HTTP/2 connection, and no --goaway-chance is set: it is not known whether anything closes those of the others", len(k.moved), len(k.clients))
	}
	return asked(Passed("Persistent HTTP/2 connections are spread again: %d of %d that clients opened again more than %s after the API server on %s was back reached it (%d clients, %d requests, --goaway-chance=%g).",
		k.reached, k.made, m.Bound, node, len(k.clients), k.requests+k.made, chance))
}
