package judges

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var returnsReady = Definition{Doc{
	Name: "returns-ready",
	Guarantee: "While an API server stops and returns, it answers no client of the balancer with 401, 403 or 404 for what exists and is allowed. " +
		"An account whose rights come from a role must be seen to reach it on new connections (action user-reads).",
	Source:     "kubernetes#121635",
	NeedsFault: true, Killed: true,
	Lasting: true,
}, judgeReturnsReady}

// falseRefusals are the responses of an API server that has not loaded the roles or resources
// yet.
var falseRefusals = []int{401, 403, 404}

const (
	// firstMoments is how long after its first response a restarted API server may still be
	// without the roles: about 1.5 s, and as long again on a busy machine.
	firstMoments = 3 * time.Second
	// userSilence is how long the account may make no request before that.
	userSilence = 500 * time.Millisecond
)

func judgeReturnsReady(m *facts.Case) Finding {
	const entrance = "balancer"
	if !slices.Contains(m.Run.Meta.Entrances, entrance) {
		return notApplicable("The cluster has no load balancer.")
	}
	node := m.Fault.Node()
	if m.Address(node) == "" {
		return Inconclusive("the fault hit %q, which is not a control-plane node", m.Fault.Injected.Target)
	}
	from, back := m.Fault.Injected.Called, m.Fault.Healed.Called
	to := m.UntilNext(m.Fault.HealEffect())
	var refused, elsewhere []string
	var user []record.Probe // of the account, from the call to heal on
	asked, reached, allowed := 0, 0, 0
	first := facts.Endless
	for _, pr := range record.Each(slices.Concat(m.Run.UserProbes, m.Run.ClientProbes, m.Run.Probes)) {
		if pr.Entrance != entrance || pr.Start > to {
			continue
		}
		no := slices.Contains(falseRefusals, pr.Status)
		switch {
		case no && pr.Start >= from && (pr.Server == node || pr.Server == ""):
			refused = append(refused, facts.DescribeProbe(pr))
		case no:
			elsewhere = append(elsewhere, facts.DescribeProbe(pr))
		}
		if pr.Start >= from {
			asked++
		}
		switch {
		case pr.User == "":
			continue
		case pr.OK && pr.Server != node:
			allowed++
		case pr.Server == node && pr.Start >= from && pr.Status > 0:
			reached, first = reached+1, min(first, pr.Start)
		}
		if pr.Start >= back {
			user = append(user, pr)
		}
	}
	slices.SortStableFunc(user, facts.ByStart)
	known := back // until when it may be without the roles
	if reached > 0 {
		known = min(to, max(back, first)+record.Nanos(firstMoments))
	}
	hole, since := facts.LongestHole(user, back, known)
	switch {
	case len(elsewhere) > 0:
		return Inconclusive("clients of the balancer were refused before the fault, or by an API server that it did not hit, so a refusal says nothing of the return: %s", elsewhere[0]).Shows(elsewhere...)
	case len(refused) > 0 && allowed < facts.EnoughProbes:
		return Inconclusive("it is not known whether the refused requests are allowed: other API servers answered %d reads of the account that user-reads makes (%s)", allowed, refused[0]).Shows(refused...)
	case len(refused) > 0:
		return Failed("A client of the balancer must not be answered with 401, 403 or 404 for what exists and is allowed as the API server on %s returns from the %s: %d of %d requests were (%s). Have the balancer send clients only to API servers whose /readyz is ok.",
			node, m.Fault.What(), len(refused), asked, refused[0]).counted("%d of %d", len(refused), asked).Shows(refused...)
	case m.StandsBy(node, back, to):
		return notApplicable("The API server on %s is on standby after its return: the balancer sends clients to one API server at a time.", node)
	case len(user) == 0:
		return Inconclusive("no account whose rights come from a role made requests through the balancer as the API server on %s returned (action user-reads)", node)
	case reached < facts.EnoughProbes:
		return Inconclusive("%d reads of an account whose rights come from a role were seen to reach the API server on %s after it was started again, which is too few to say how it answers", reached, node)
	case hole > userSilence:
		return Inconclusive("the account whose rights come from a role made no request for %s (from %s), so refusals may have gone unseen", text.Short(hole), text.When(since))
	}
	return Passed("None of %d requests through the balancer was answered with 401, 403 or 404 as the API server on %s returned from the %s; %d of them, on new connections by an account whose rights come from a role, reached it, the first one %s after it was started.",
		asked, node, m.Fault.What(), reached, text.Short(text.Span(back, first))).counted("0 of %d", asked)
}
