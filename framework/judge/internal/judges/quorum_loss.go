package judges

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var quorumLoss = Definition{Doc{
	Name:       "quorum-loss",
	Guarantee:  "Without a quorum of etcd members no write is acknowledged and no quorum read is stale; once a member that restores the quorum is back, 10 s after its start at the latest, writes are acknowledged again within the bound, and 2E more for each election that ends in a split vote (two at most), and nothing is lost.",
	Source:     "Automated HA master deployment; control plane resilience overview",
	Lasting:    true,
	NeedsFault: true, NeedsBound: true,
	Params: map[string]string{
		"faults":   "IDs of all injections that together break the quorum, separated by commas (default: the check's fault)",
		"attempts": "how many writes, and how many quorum reads, must have been sent to each surviving API server while there was no quorum (default 10, the minimum)",
	},
}, judgeQuorumLoss}

func judgeQuorumLoss(m *facts.Case) Finding {
	from, to := m.Active()
	back, nodes := facts.Endless, []string(nil)
	for _, inj := range m.Together() {
		back = min(back, returned(m, inj))
		if !slices.Contains(nodes, inj.Node()) {
			nodes = append(nodes, inj.Node())
		}
	}
	if from >= to {
		return Inconclusive("the faults were never active together: the last took effect %s, the first was healed %s", text.At(from), text.At(to))
	}
	all, survivors := m.Run.Meta.Entrances, m.APIServers(nodes...)

	if ack, _ := facts.AcknowledgedWithin(m.Run, all, from, to); ack != nil {
		return Failed("Without a quorum of etcd members no write may be acknowledged: one was %s, while %s were down (%s to %s).",
			text.At(ack.Ret), text.And(nodes), text.When(from), text.When(to)).Shows(ack.What).exhibits(ack.Exhibit())
	}
	read, newer := facts.StaleRead(m.Run, all, from, to)
	if read != nil {
		return failStale(m, read, newer)
	}
	counts, problem := attempts(m, survivors, from, to)
	if problem != nil {
		return *problem
	}
	m = withSplitVotes(m, to, m.UntilNext(back))
	return bounded(*m.Bound)(quorumBack(m, from, to, back, nodes, counts))
}

// returned is when a member is back after a fault. Its first answer proves that, but a member that
// starts answers only once there is a quorum; so one that was stopped is back when it has had the time
// to start.
func returned(m *facts.Case, inj *facts.Injection) record.Nanos {
	back := inj.HealEffect()
	started := facts.FirstAt(m.Run.Processes, inj.Healed.Called, func(p record.ProcessState) bool {
		return p.Node == inj.Node() && p.Component == "etcd" && p.Error == "" && p.PID > 0
	})
	if !inj.Injected.Has(record.EffectDown) || started == facts.Endless {
		return back
	}
	return min(back, started+record.Nanos(record.ComponentStart))
}

// enoughFinal is how many reads are needed to conclude that nothing was lost with the quorum.
const enoughFinal = 5

// quorumBack judges the time after the first healing, which was called at
// called and took effect at back; the quorum was lost at lost.
func quorumBack(m *facts.Case, lost, called, back record.Nanos, nodes []string, counts string) Finding {
	bound := *m.Bound
	var first *facts.Attempt
	var each []string
	vain := back // until when writes failed
	for _, e := range m.Run.Meta.Entrances {
		served := false
		for _, w := range facts.WritesThrough(m.Run, e) {
			if w.OK && w.Ret >= called && !served {
				served, each = true, append(each, fmt.Sprintf("the first write through %s was acknowledged %s after the first member was back", e, text.Short(max(0, text.Span(back, w.Ret)))))
			}
			if w.OK && w.Ret >= called && (first == nil || w.Ret < first.Ret) {
				first = &w
			}
			if !w.OK && w.Call >= called {
				vain = max(vain, w.Ret)
			}
		}
	}
	limit := back + record.Nanos(bound.Limit)
	switch {
	case first == nil && vain <= limit:
		return Inconclusive("no write was acknowledged after the first healing, but none was tried beyond the bound of %s, or the record ends before", bound)
	case first == nil:
		return Failed("Service must be back within %s of the first member's return: no write was acknowledged, though some were tried until %s after it.",
			bound, text.Short(text.Span(back, vain))).Took(text.Span(back, vain)).Rests(back, vain)
	case first.Ret > limit && first.Call > limit && vain <= limit:
		return Inconclusive("the first write was acknowledged %s after the first member's return, but none was tried around the bound of %s", text.Short(text.Span(back, first.Ret)), bound)
	case first.Ret > limit:
		return Failed("Service must be back within %s of the first member's return: the first write was acknowledged after %s.",
			bound, text.Short(time.Duration(first.Ret-back))).Took(time.Duration(first.Ret-back)).Rests(back, first.Ret).Shows(first.What)
	}
	took := time.Duration(max(0, first.Ret-back))
	known := facts.NewWriteLog(m.Run)
	final := 0
	for _, read := range record.Each(m.Run.Ops) {
		if !facts.IsRegister(read) || !facts.IsQuorumRead(read) || read.Outcome != record.OK || read.IsOther() || read.Call < back {
			continue
		}
		if w := known.StaleAgainst(read); w != nil {
			return Failed("No acknowledged write may be lost with the quorum: once it was back, %s was read through %s as %s %s, although %s had been acknowledged %s.",
				read.Key, read.Entrance, text.Quoted(read.Value, read.Found), text.At(read.Call), facts.WrittenAs(w), text.At(w.Return)).
				Took(took).Shows(text.Describe(*w), text.Describe(read))
		}
		if slices.ContainsFunc(known.Of(read).Writes, func(w record.Op) bool { return w.Outcome == record.OK && w.Return < lost }) {
			final++
		}
	}
	if final < enoughFinal {
		return Inconclusive("after the quorum was back, %s of keys that had been written before it was lost succeeded, fewer than the %d required to show that nothing was lost", text.Plural(final, "read"), enoughFinal).Took(took)
	}
	return Passed("While %s were down (sent: %s), no write was acknowledged and no read was stale; the first write was acknowledged %s after the first member was back, within %s, and %d reads afterwards, of keys that had been written before, show nothing lost.",
		text.And(nodes), counts, text.Short(took), bound, final).Took(took).Shows(each...)
}
