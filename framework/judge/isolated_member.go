package judge

func isolatedMember() definition {
	return definition{Doc{
		Name:       "isolated-member",
		Guarantee:  "The API server on an isolated etcd member serves no stale quorum read and acknowledges no write, while the majority side goes on serving within the bound.",
		Source:     "API server HA proposal, section 1, case 1",
		NeedsFault: true, NeedsBound: true,
	}, judgeIsolatedMember}
}

func judgeIsolatedMember(m *matter) finding {
	from, to := m.fault.effect(), m.fault.healed.Called
	node := m.fault.node()
	if !m.isNode(node) {
		return inconclusive("the fault hit no control-plane node, but %q", m.fault.injected.Target)
	}
	cut := []string{node}

	ack, _ := acknowledgedWithin(m.run, cut, from, to)
	if ack != nil {
		return failed("The API server on an isolated etcd member must acknowledge no write: %s acknowledged one %s, while the %s lasted (%s to %s).",
			node, at(ack.ret), m.fault.what(), when(from), when(to)).shows(ack.what)
	}
	read, newer, _ := staleRead(m.run, cut, from, to)
	if read != nil {
		return failStale(m, read, newer)
	}
	counts, problem := m.attempts(cut, from, to)
	if problem != nil {
		return *problem
	}

	others := m.apiServers(m.hitBetween(from, to)...)
	if len(others) == 0 {
		return inconclusive("the record names no API server on the majority side")
	}
	worst, problem := judgeGaps(m, others, from, to)
	if problem != nil {
		return *problem
	}
	return passed("While %s was isolated, no write was acknowledged and no read was stale of %s; through %s the longest time without an acknowledged write was %s, within %s.",
		node, counts, and(others), short(worst.length()), m.bound).took(worst.length())
}
