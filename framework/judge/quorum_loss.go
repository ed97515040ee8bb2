package judge

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func quorumLoss() definition {
	return definition{Doc{
		Name:       "quorum-loss",
		Guarantee:  "Without a quorum of etcd members no write is acknowledged and no quorum read is stale; within the bound of a member that makes one again and answers, so is service, and nothing is lost.",
		Source:     "Automated HA master deployment; control plane resilience overview",
		NeedsFault: true, NeedsBound: true,
		Params: map[string]string{
			"faults": "IDs of all injections that together take the quorum, separated by commas (default: the check's fault)",
		},
	}, judgeQuorumLoss}
}

// judgeQuorumLoss counts from the proof that a member is back, which is its answer: what it
// took to start is over by then.
func judgeQuorumLoss(m *matter) finding {
	from, to, back := m.fault.effect(), m.fault.healed.Called, m.fault.healEffect()
	nodes := []string{m.fault.node()}
	for _, id := range splitList(m.check.Params["faults"]) {
		inj := m.faults[id]
		from = max(from, inj.effect())
		to = min(to, inj.healed.Called)
		back = min(back, inj.healEffect())
		if !slices.Contains(nodes, inj.node()) {
			nodes = append(nodes, inj.node())
		}
	}
	if from >= to {
		return inconclusive("the faults were never in force together: the last took effect %s, the first was healed %s", at(from), at(to))
	}
	all, survivors := m.run.Meta.Entrances, m.apiServers(nodes...)

	if ack, _ := acknowledgedWithin(m.run, all, from, to); ack != nil {
		return failed("Without a quorum of etcd members no write may be acknowledged: one was %s, while %s were down (%s to %s).",
			at(ack.ret), and(nodes), when(from), when(to)).shows(ack.what)
	}
	read, newer, _ := staleRead(m.run, all, from, to)
	if read != nil {
		return failStale(m, read, newer)
	}
	counts, problem := m.attempts(survivors, from, to)
	if problem != nil {
		return *problem
	}
	return m.quorumBack(from, to, back, nodes, counts)
}

// enoughFinal is how many reads it takes to say that nothing was lost with the quorum.
const enoughFinal = 5

// quorumBack judges the time after the first healing, which was called at
// called and took effect at back; the quorum was lost at lost.
func (m *matter) quorumBack(lost, called, back record.Nanos, nodes []string, counts string) finding {
	bound := *m.bound
	var first *attempt
	vain := back // until when writes were tried in vain
	for _, e := range m.run.Meta.Entrances {
		for _, w := range writesThrough(m.run, e) {
			if w.ok && w.ret >= called && (first == nil || w.ret < first.ret) {
				first = &w
			}
			if !w.ok && w.call >= called {
				vain = max(vain, w.ret)
			}
		}
	}
	limit := back + record.Nanos(bound.Limit)
	switch {
	case first == nil && vain <= limit:
		return inconclusive("no write was acknowledged after the first healing, but none was tried beyond the bound of %s, or the record ends before", bound)
	case first == nil:
		return failed("Service must be back within %s of the first member's return: no write was acknowledged, though some were tried until %s after it.",
			bound, short(span(back, vain))).took(span(back, vain)).rests(back, vain)
	case first.ret > limit && first.call > limit && vain <= limit:
		return inconclusive("the first write was acknowledged %s after the first member's return, but none was tried around the bound of %s", short(span(back, first.ret)), bound)
	case first.ret > limit:
		return failed("Service must be back within %s of the first member's return: the first write was acknowledged after %s.",
			bound, short(time.Duration(first.ret-back))).took(time.Duration(first.ret-back)).rests(back, first.ret).shows(first.what)
	}
	took := time.Duration(max(0, first.ret-back))
	known := newLedger(m.run)
	final := 0
	for _, o := range m.run.Ops {
		read := o.V
		if !isRegister(read) || !isQuorumRead(read) || read.Outcome != record.OK || read.Call < back {
			continue
		}
		if w := known.staleAgainst(read); w != nil {
			return failed("Nothing may be lost with the quorum: through %s, %s was read as %s %s, when a quorum was back, although %s had been acknowledged %s.",
				read.Entrance, read.Key, quoted(read.Value, read.Found), at(read.Call), writtenAs(w), at(w.Return)).
				took(took).shows(describe(*w), describe(read))
		}
		if slices.ContainsFunc(known.of(read).writes, func(w record.Op) bool { return w.Outcome == record.OK && w.Return < lost }) {
			final++
		}
	}
	if final < enoughFinal {
		return inconclusive("after the quorum was back, %s of keys that had been written before it was lost had an answer, and it takes %d to show that nothing was lost", plural(final, "read"), enoughFinal).took(took)
	}
	return passed("While %s were down, no write was acknowledged and no read was stale of %s; the first write was acknowledged %s after the first member was back, within %s, and %d reads afterwards, of keys that had been written before, show nothing lost.",
		and(nodes), counts, short(took), bound, final).took(took)
}
