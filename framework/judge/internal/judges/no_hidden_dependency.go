package judges

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func noHiddenDependency() Definition {
	return Definition{verdict.Doc{
		Name:       "no-hidden-dependency",
		Guarantee:  "With a node gone, the API server of every other node acknowledges writes and answers quorum reads, and every other controller manager and scheduler has its requests about its lease answered, with no pause longer than the bound.",
		Source:     "Automated HA master deployment",
		NeedsFault: true, NeedsBound: true,
	}, judgeNoHiddenDependency}
}

// instance is an instance of an elected component.
type instance struct{ component, node string }

func (i instance) String() string { return i.component + " on " + i.node }

// judgeNoHiddenDependency reports all components on other nodes that could not work while the
// node was gone. A standby instance of an elected component reads its lease every retry period,
// and would write it next; the active one writes it. Both need an API server that does quorum
// reads of etcd.
func judgeNoHiddenDependency(m *facts.Matter) Finding {
	from, to := m.Fault.Effect(), m.Fault.Healed.Called
	hit := m.HitBetween(from, to)
	servers := m.APIServers(hit...)
	switch {
	case !m.IsNode(m.Fault.Node()) || m.Fault.Injected.Component != "":
		return Inconclusive("the fault did not take a whole node, but %q", m.Fault.Injected.Target)
	case len(servers) == 0:
		return Inconclusive("the record names no API server on another node")
	case text.Span(from, to) <= m.Bound.Limit:
		return Inconclusive("%s was gone for %s, which is not longer than %s", m.Fault.Node(), text.Short(text.Span(from, to)), m.Bound)
	}
	broken, unknown, working := serversWork(m, servers, from, to)
	more, doubts, instances, worst := instancesWork(m, hit, working, from, to)
	broken, unknown = append(broken, more...), append(unknown, doubts...)
	switch {
	case len(broken) > 0:
		return Failed("With %s gone (%s to %s), every API server, controller manager and scheduler on other nodes must be able to work within %s: %s.",
			m.Fault.Node(), text.When(from), text.When(to), m.Bound, strings.Join(broken, "; ")).Rests(from, to).counted("%d could not", len(broken)).Shows(broken...)
	case len(unknown) > 0 && len(unknown) == len(doubts) && slices.Contains(m.Run.Meta.NoAccess, record.AuditLogs):
		return notApplicable("It cannot be tested here in every part: with %s gone the API servers on %s worked, and only the audit logs, to which the provider gives no access, show whether controller managers and schedulers did.",
			m.Fault.Node(), text.And(servers))
	case len(unknown) > 0:
		return Inconclusive("with %s gone: %s", m.Fault.Node(), strings.Join(unknown, "; ")).Shows(unknown...)
	case instances == 0:
		return Inconclusive("no controller manager and no scheduler that elects its active instance is on another node than %s", m.Fault.Node())
	}
	return Passed("With %s gone for %s, the API servers on %s acknowledged writes and answered quorum reads, and each of %d instances of elected components there had requests about its lease answered, the longest time without one was %s, within %s.",
		m.Fault.Node(), text.Short(text.Span(from, to)), text.And(servers), instances, text.Short(worst), m.Bound).Took(worst)
}

// serversWork describes the API servers that did not work for longer than the bound and those
// without a result, and returns the names of those that are not broken.
func serversWork(m *facts.Matter, servers []string, from, to record.Nanos) (broken, unknown, working []string) {
	for _, s := range servers {
		_, problem := judgeGaps(m, []string{s}, from, to)
		reads := facts.ReadsThrough(m.Run, s, from, to)
		answered := slices.ContainsFunc(reads, func(o record.Op) bool { return o.Outcome == record.OK })
		switch {
		case problem != nil && problem.Verdict == verdict.Fail:
			broken = append(broken, fmt.Sprintf("the API server on %s acknowledged no write for %s", s, problem.Measured))
			continue
		case !answered && len(reads) >= enoughAttempts:
			broken = append(broken, fmt.Sprintf("the API server on %s answered none of %s", s, text.Plural(len(reads), "quorum read")))
			continue
		case problem != nil:
			unknown = append(unknown, problem.Sentence)
		case !answered:
			unknown = append(unknown, fmt.Sprintf("only %s were tried through %s", text.Plural(len(reads), "quorum read"), s))
		}
		working = append(working, s)
	}
	return broken, unknown, working
}

// instancesWork does the same for the instances of elected components on nodes that are not hit,
// from the audit logs of the working API servers. It returns how many there are, and the longest
// time in which an instance had no response.
func instancesWork(m *facts.Matter, hit, servers []string, from, to record.Nanos) (broken, unknown []string, n int, worst time.Duration) {
	for _, i := range standingBy(m, hit) {
		n++
		gap, problem := unheard(m, i, from, to)
		silent := facts.SilentLog(m.Run, servers, gap)
		switch {
		case problem != "":
			unknown = append(unknown, problem)
		case gap.Length() <= m.Bound.Limit:
			worst = max(worst, gap.Length())
		case silent != "":
			unknown = append(unknown, fmt.Sprintf("the audit logs show no answered request of %s about its lease from %s for %s, but the log of %s was not read for part of that time",
				i, text.When(gap.From), text.Short(gap.Length()), silent))
		default:
			broken = append(broken, fmt.Sprintf("%s had no request about its lease answered from %s for %s", i, text.When(gap.From), text.Short(gap.Length())))
		}
	}
	return broken, unknown, n, worst
}

// standingBy returns the instances of elected components on nodes that are not hit. Components
// that supervisors elect are left out: they run only where they are active.
func standingBy(m *facts.Matter, hit []string) (all []instance) {
	for _, component := range []string{"kube-controller-manager", "kube-scheduler"} {
		if slices.ContainsFunc(m.Run.Processes, func(p record.Timed[record.ProcessState]) bool {
			return p.V.Component == component && p.V.Standby
		}) {
			continue
		}
		for _, n := range m.NodesWith(component) {
			if !slices.Contains(hit, n.Name) {
				all = append(all, instance{component, n.Name})
			}
		}
	}
	return all
}

// unheard returns the longest time between two moments in which no request of an instance about
// its lease was answered, or why that is not known.
func unheard(m *facts.Matter, i instance, from, to record.Nanos) (longest facts.Gap, problem string) {
	var answers []record.Nanos
	before := false
	for _, a := range slices.Concat(m.Run.Actions, m.Run.Asked) {
		v := a.V
		if !v.Election || v.Component != i.component || v.Node != i.node || v.Code < 200 || v.Code > 299 {
			continue
		}
		switch {
		case v.Completed > from && v.Completed < to:
			answers = append(answers, v.Completed)
		case v.Completed <= from && v.Completed >= from-record.Nanos(m.Bound.Limit):
			before = true
		}
	}
	if !before {
		return facts.Gap{}, fmt.Sprintf("the audit logs show no request of %s about its lease in the %s before", i, text.Short(m.Bound.Limit))
	}
	slices.Sort(answers)
	begin := from
	for _, end := range append(answers, to) {
		if g := (facts.Gap{Entrance: i.node, From: begin, To: end, Asked: begin}); g.Length() > longest.Length() {
			longest = g
		}
		begin = end
	}
	return longest, ""
}
