package judges

import (
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var tokensAccepted = Definition{Doc{
	Name:      "tokens-accepted",
	Guarantee: "A service-account token that one API server issued is accepted by every other one, which authenticates the client as that service account.",
	Source:    "kubernetes/kubernetes#22351, #25063",
}, judgeTokensAccepted}

func judgeTokensAccepted(m *facts.Case) Finding {
	servers := m.APIServers()
	if len(servers) < 2 {
		return notApplicable("The cluster has %d API server; using a token at another one requires two.", len(servers))
	}
	_, to := m.Quiet()
	pairs, accepted := facts.OrderedPairs(servers), map[facts.Pair]bool{}
	problems := map[facts.Pair]string{} // why it is not known
	users := map[string]string{}        // whose the last token of an issuer is
	for _, op := range record.Each(m.Run.Ops) {
		p := facts.Pair{From: op.Key, To: op.Entrance}
		switch {
		case op.Purpose != "token" || op.Call > to:
		case p.From == p.To && op.Outcome == record.OK && op.Found:
			delete(users, p.From)
		case p.From == p.To:
			for _, other := range servers {
				problems[facts.Pair{From: p.From, To: other}] = "it was not issued: " + op.Error
			}
		case op.Outcome == record.Refused && op.Value == "Unauthorized":
			return Failed("A token that one API server issued must be accepted by every other one: %s refused one that %s had issued: %s.",
				p.To, p.From, op.Error).counted("%d of %d pairs", len(accepted), len(pairs)).Shows(text.Describe(op))
		case op.Outcome == record.OK && op.Found && !strings.HasPrefix(op.Value, "system:serviceaccount:"):
			return Failed("A client with a token must be authenticated as the service account that it was issued for: with a token that %s had issued, %s authenticated a client as %s.",
				p.From, p.To, op.Value).counted("%d of %d pairs", len(accepted), len(pairs)).Shows(text.Describe(op))
		case op.Outcome == record.OK && op.Found && users[p.From] != "" && users[p.From] != op.Value:
			return Failed("A client with a token must be authenticated as the service account that it was issued for: with a token that %s had issued, one API server authenticated a client as %s, and %s authenticated it as %s.",
				p.From, users[p.From], p.To, op.Value).counted("%d of %d pairs", len(accepted), len(pairs)).Shows(text.Describe(op))
		case op.Outcome == record.OK && op.Found:
			users[p.From] = op.Value
			accepted[p] = true
		// A client that is forbidden to ask has been recognised.
		case op.Outcome == record.Refused && op.Value == "Forbidden":
			accepted[p] = true
		default:
			problems[p] = op.Error
		}
	}
	var missing []string
	for _, p := range pairs {
		if !accepted[p] {
			missing = append(missing, strings.TrimSuffix(p.From+" to "+p.To+": "+problems[p], ": "))
		}
	}
	if len(missing) > 0 {
		return Inconclusive("%d of %d ordered pairs of API servers have no token of the one that the other accepted or refused: %s",
			len(missing), len(pairs), strings.Join(missing, "; ")).counted("%d of %d pairs", len(accepted), len(pairs))
	}
	return Passed("For each of %d ordered pairs of API servers (%s), a token that one issued was accepted by the other.",
		len(pairs), text.And(servers)).counted("%d of %d pairs", len(pairs), len(pairs))
}
