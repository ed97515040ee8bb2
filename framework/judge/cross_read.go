package judge

import (
	"strings"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func crossRead() definition {
	return definition{Doc{
		Name:      "cross-read",
		Guarantee: "A write through one API server is seen by the very next read through each other one.",
		Source:    "API server HA proposal, section 1, case 2",
	}, judgeCrossRead}
}

func judgeCrossRead(m *matter) finding {
	servers := m.apiServers()
	if len(servers) < 2 {
		return notApplicable("The cluster has %d API server; to read through another one takes two.", len(servers))
	}
	var writes, reads []record.Op
	for _, o := range m.run.Ops {
		switch op := o.V; {
		case op.API != apiKubernetes || op.Purpose != "cross-read" || !m.isNode(op.Entrance):
		case op.Type == record.OpCreate || op.Type == record.OpUpdate:
			writes = append(writes, op)
		case isQuorumRead(op):
			reads = append(reads, op)
		}
	}
	pairs := orderedPairs(servers)
	c := matchReads(writes, reads)
	if w := c.wrong; w != nil {
		return failed("A write through one API server must be seen by the next read through each other one: %s was written as %q through %s, and the next read through %s returned %s.",
			w.write.Key, w.write.Value, w.pair.from, w.pair.to, quoted(w.read.Value, w.read.Found)).
			counted("%d of %d pairs", len(c.seen), len(pairs)).shows(describe(w.write), describe(w.read))
	}
	if missing := c.missing(pairs); len(missing) > 0 {
		return inconclusive("%d of %d ordered pairs of API servers have no write that was read: %s", len(missing), len(pairs), strings.Join(missing, "; ")).
			counted("%d of %d pairs", len(c.seen), len(pairs))
	}
	return passed("For each of %d ordered pairs of API servers (%s), a write through one was returned by the very next read through the other.",
		len(pairs), and(servers)).counted("%d of %d pairs", len(pairs), len(pairs))
}
