package judges

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// judgeGaps checks the gaps of every entrance between from and to against the bound. It returns
// the longest, and no problem if none exceeds it. An entrance that fails takes precedence over
// one without a result.
func judgeGaps(m *facts.Case, entrances []string, from, to record.Nanos) (worst facts.Gap, problem *Finding) {
	limit := m.Bound.Limit
	var vain facts.Gap
	var open *Finding
	for _, e := range entrances {
		longest, proven, acks := facts.LongestGap(m.Run, e, from, to)
		if longest.Length() > worst.Length() || worst.Entrance == "" {
			worst = longest
		}
		if proven.Proven() > limit && proven.Length() > vain.Length() {
			vain = proven
		}
		var f Finding
		switch {
		case open != nil:
			continue
		case longest.Asked == longest.To && longest.Length() > limit:
			f = Inconclusive("no write was tried through %s from %s for %s, so nothing can be said about it", e, text.When(longest.From), text.Short(longest.Length()))
		case longest.Length() > limit:
			f = Inconclusive("no write was tried through %s from %s until %s, and none was acknowledged until %s, so nothing can be said about the time before",
				e, text.When(longest.From), text.When(longest.Asked), text.When(longest.To))
		case acks == 0:
			f = Inconclusive("no write through %s was acknowledged before the fault was healed after %s, which is less than the bound of %s",
				e, text.Short(time.Duration(to-from)), m.Bound)
		default:
			continue
		}
		open = &f
	}
	if vain.Entrance != "" {
		return vain, Failed("Writes through surviving API servers must resume within %s of the %s: through %s, no write was acknowledged for %s (%s to %s).",
			m.Bound, m.Fault.What(), vain.Entrance, text.Short(vain.Length()), text.When(vain.From), text.When(vain.To)).
			Took(vain.Length()).Rests(from, vain.To).problem()
	}
	return worst, open
}

// mostSplitVotes is how many split votes in a row extend a bound: etcd's members split one in some
// hundred votes.
const mostSplitVotes = 2

// withSplitVotes extends the check's bound, if it has time for an election of etcd, by that for
// each split vote before the first leader after from.
func withSplitVotes(m *facts.Case, from, to record.Nanos) *facts.Case {
	e, elects := m.Bound.Inputs["E"]
	n := min(m.SplitVotes(from, to), mostSplitVotes)
	if !elects || n == 0 {
		return m
	}
	return boundBy(m, m.Bound.Plus("split votes", time.Duration(2*n)*e))
}

// withElection extends the bound of a takeover, if the fault cost etcd its leader and members wait for
// an election for longer than instances for their next try (2.2P). The read by which a standby learns
// of the last renewal is answered only when etcd has a leader again, and the time for which the lease
// lasts starts at the answer (k8s.io/client-go/tools/leaderelection, observedTime).
func withElection(m *facts.Case, component string) *facts.Case {
	from := m.Fault.Injected.Called
	n := min(m.Elections(from, from+record.Nanos(m.Bound.Limit)), 1+mostSplitVotes)
	e, p := m.Run.Meta.Settings["E"], m.Settings(component)["P"]
	if n == 0 || 10*e <= 11*p {
		return m
	}
	return boundBy(m, m.Bound.Plus("election of etcd", time.Duration(2*n)*e))
}

// boundBy returns the case with another bound.
func boundBy(m *facts.Case, b verdict.Bound) *facts.Case {
	other := *m
	other.Bound = &b
	return &other
}

// enoughAttempts is how many writes, and how many quorum reads, must have been tried through each
// entrance to conclude that none had an effect. A check may require more.
const enoughAttempts = 10

// attempts counts the requests sent through each entrance between from and to. Fewer than the check's
// parameter are a problem.
func attempts(m *facts.Case, entrances []string, from, to record.Nanos) (counts string, problem *Finding) {
	least, problem := countParam(m, "attempts", enoughAttempts, enoughAttempts)
	if problem != nil {
		return "", problem
	}
	var all []string
	for _, e := range entrances {
		_, writes := facts.AcknowledgedWithin(m.Run, []string{e}, from, to)
		reads := 0
		for _, r := range facts.ReadsThrough(m.Run, e, from, to) {
			if !r.Unsent {
				reads++
			}
		}
		all = append(all, fmt.Sprintf("%s and %s through %s", text.Plural(writes, "write"), text.Plural(reads, "quorum read"), e))
		if problem == nil && min(writes, reads) < least {
			problem = Inconclusive("%s were sent from %s to %s, fewer than the %d of each required for a verdict", all[len(all)-1], text.When(from), text.When(to), least).problem()
		}
	}
	return text.And(all), problem
}

// noneBeside is the finding about an API server that depends on the etcd member of a node, if the
// node has no API server: with an external etcd all of them use every member.
func noneBeside(node string) Finding {
	return notApplicable("No API server depends on the etcd member on %s alone: etcd has hosts of its own.", node)
}

// hitsMembers wraps a judge of what faults cost etcd. It is not applicable if etcd has hosts of its own
// and the faults hit none of them.
func hitsMembers(judge func(*facts.Case) Finding) func(*facts.Case) Finding {
	return func(m *facts.Case) Finding {
		from, to := m.Active()
		hit := m.HitBetween(from, to)
		if !m.Run.Meta.RemoteEtcd || slices.ContainsFunc(m.NodesWith("etcd"), func(n record.Node) bool { return slices.Contains(hit, n.Name) }) {
			return judge(m)
		}
		return notApplicable("The faults hit %s, where no etcd member runs: etcd has hosts of its own.", text.And(hit))
	}
}

// failStale is the finding for a quorum read that was older than a write
// acknowledged before it was called.
func failStale(m *facts.Case, read, newer *record.Op) Finding {
	return Failed("No quorum read may be stale: through %s, %s was read as %s %s, although %s had been written through %s and acknowledged %s, before the read was called (during the %s).",
		read.Entrance, read.Key, text.Quoted(read.Value, read.Found), text.At(read.Call), facts.WrittenAs(newer), newer.Entrance, text.At(newer.Return), m.Fault.What()).
		Shows(text.Describe(*newer), text.Describe(*read)).
		exhibits(facts.Exhibit("A quorum read returns what had been replaced", facts.OpSpan(*newer), facts.Blamed(facts.OpSpan(*read))))
}
