package judges

import (
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var crossRead = Definition{Doc{
	Name:      "cross-read",
	Guarantee: "A write through one API server is seen by the very next read through every other one.",
	Source:    "API server HA proposal, section 1, case 2",
}, judgeCrossRead}

func judgeCrossRead(m *facts.Case) Finding {
	servers := m.APIServers()
	if len(servers) < 2 {
		return notApplicable("The cluster has %d API server; reading through another one requires two.", len(servers))
	}
	var writes, reads []record.Op
	for _, o := range m.Run.Ops {
		switch op := o.V; {
		case op.API != facts.APIKubernetes || op.Purpose != "cross-read" || !m.IsNode(op.Entrance):
		case op.Type == record.OpCreate || op.Type == record.OpUpdate:
			writes = append(writes, op)
		case facts.IsQuorumRead(op):
			reads = append(reads, op)
		}
	}
	pairs := facts.OrderedPairs(servers)
	c := facts.MatchReads(writes, reads)
	if w := c.Wrong; w != nil {
		return Failed("A write through one API server must be seen by the next read through every other one: %s was written as %q through %s, and the next read through %s returned %s.",
			w.Write.Key, w.Write.Value, w.Pair.From, w.Pair.To, text.Quoted(w.Read.Value, w.Read.Found)).
			counted("%d of %d pairs", len(c.Seen), len(pairs)).Shows(text.Describe(w.Write), text.Describe(w.Read)).
			exhibits(facts.Exhibit("The next read does not return the write", facts.OpSpan(w.Write), facts.Blamed(facts.OpSpan(w.Read))))
	}
	if missing := c.Missing(pairs); len(missing) > 0 {
		return Inconclusive("%d of %d ordered pairs of API servers have no write that was read: %s", len(missing), len(pairs), strings.Join(missing, "; ")).
			counted("%d of %d pairs", len(c.Seen), len(pairs))
	}
	return Passed("For each of %d ordered pairs of API servers (%s), a write through one was returned by the very next read through the other.",
		len(pairs), text.And(servers)).counted("%d of %d pairs", len(pairs), len(pairs))
}
