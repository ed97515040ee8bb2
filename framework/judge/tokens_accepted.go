package judge

import (
	"strings"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func tokensAccepted() definition {
	return definition{Doc{
		Name:      "tokens-accepted",
		Guarantee: "A service-account token that one API server issued is accepted by each other one, which takes the client for that service account.",
		Source:    "kubernetes/kubernetes#22351, #25063",
	}, judgeTokensAccepted}
}

func judgeTokensAccepted(m *matter) finding {
	servers := m.apiServers()
	if len(servers) < 2 {
		return notApplicable("The cluster has %d API server; to use a token at another one takes two.", len(servers))
	}
	_, to := m.quiet()
	pairs, accepted := orderedPairs(servers), map[pair]bool{}
	problems := map[pair]string{} // why it is not known
	for _, o := range m.run.Ops {
		op := o.V
		p := pair{op.Key, op.Entrance}
		switch {
		case op.Purpose != "token" || op.Call > to:
		case p.from == p.to && op.Outcome == record.OK && op.Found:
		case p.from == p.to:
			for _, other := range servers {
				problems[pair{p.from, other}] = "it was not issued: " + op.Error
			}
		case op.Outcome == record.Refused && op.Value == "Unauthorized":
			return failed("A token that one API server issued must be accepted by each other one: %s refused one that %s had issued: %s.",
				p.to, p.from, op.Error).counted("%d of %d pairs", len(accepted), len(pairs)).shows(describe(op))
		case op.Outcome == record.OK && op.Found && !strings.HasPrefix(op.Value, "system:serviceaccount:"):
			return failed("A client with a token must be taken for the service account that it was issued for: %s took one with a token that %s had issued for %s.",
				p.to, p.from, op.Value).counted("%d of %d pairs", len(accepted), len(pairs)).shows(describe(op))
		// Who is forbidden to ask has been recognised.
		case op.Outcome == record.OK && op.Found, op.Outcome == record.Refused && op.Value == "Forbidden":
			accepted[p] = true
		default:
			problems[p] = op.Error
		}
	}
	var missing []string
	for _, p := range pairs {
		if !accepted[p] {
			missing = append(missing, strings.TrimSuffix(p.from+" to "+p.to+": "+problems[p], ": "))
		}
	}
	if len(missing) > 0 {
		return inconclusive("%d of %d ordered pairs of API servers have no token of the one that the other accepted or refused: %s",
			len(missing), len(pairs), strings.Join(missing, "; ")).counted("%d of %d pairs", len(accepted), len(pairs))
	}
	return passed("For each of %d ordered pairs of API servers (%s), a token that one issued was accepted by the other.",
		len(pairs), and(servers)).counted("%d of %d pairs", len(pairs), len(pairs))
}
