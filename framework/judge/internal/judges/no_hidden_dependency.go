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

var noHiddenDependency = Definition{Doc{
	Name:       "no-hidden-dependency",
	Guarantee:  "With a node gone, the API server of every other node acknowledges writes and answers quorum reads, and every other controller manager and scheduler has its requests about its lease answered, with no pause longer than the bound, or than its retry period allows.",
	Source:     "Automated HA master deployment",
	NeedsFault: true, NeedsBound: true,
}, judgeNoHiddenDependency}

type instance struct{ component, node string }

func (i instance) String() string { return i.component + " on " + i.node }

// judgeNoHiddenDependency reports all components on other nodes that could not work while the
// node was gone. A standby instance of an elected component reads its lease every retry period,
// and would write it next; the active one writes it. Both need an API server that does quorum
// reads of etcd.
func judgeNoHiddenDependency(m *facts.Case) Finding {
	from, to := m.Fault.Effect(), m.Fault.Healed.Called
	hit := m.HitBetween(from, to)
	servers := m.APIServers(hit...)
	switch {
	case !m.IsNode(m.Fault.Node()) || m.Fault.Injected.Component != "":
		return Inconclusive("the fault on %q did not take down a whole node", m.Fault.Injected.Target)
	case len(servers) == 0:
		return Inconclusive("the record names no API server on another node")
	case text.Span(from, to) <= m.Bound.Limit:
		return Inconclusive("%s was gone for %s, which is not longer than %s", m.Fault.Node(), text.Short(text.Span(from, to)), m.Bound)
	}
	broken, unknown, working, worst := serversWork(m, servers, from, to)
	w := instancesWork(m, hit, working, from, to)
	broken, unknown = append(broken, w.broken...), append(unknown, w.unknown...)
	switch {
	case len(broken) > 0:
		f := Failed("With %s gone (%s to %s), every API server, controller manager and scheduler on other nodes must be able to work within %s: %s.",
			m.Fault.Node(), text.When(from), text.When(to), m.Bound, strings.Join(broken, "; ")).Rests(from, to).Shows(broken...)
		if w.never > 0 {
			return f.counted("%d could not", len(broken))
		}
		return f.Took(max(worst, w.longest))
	case len(unknown) > 0 && len(unknown) == len(w.unknown) && slices.Contains(m.Run.Meta.NoAccess, record.AuditLogs):
		return notApplicable("Not every part of the requirement can be tested here: with %s gone the API servers on %s worked, and only the audit logs, to which the provider gives no access, show whether controller managers and schedulers did.",
			m.Fault.Node(), text.And(servers))
	case len(unknown) > 0:
		return Inconclusive("with %s gone: %s", m.Fault.Node(), strings.Join(unknown, "; ")).Shows(unknown...)
	case w.instances == 0:
		return Inconclusive("no controller manager and no scheduler that elects its active instance is on a node other than %s", m.Fault.Node())
	}
	return bounded(w.allowed)(Passed("With %s gone for %s, the API servers on %s acknowledged writes and answered quorum reads, and each of %d instances of elected components there had requests about its lease answered; the longest gap was %s, within %s.",
		m.Fault.Node(), text.Short(text.Span(from, to)), text.And(servers), w.instances, text.Short(w.worst), w.allowed).Took(w.worst))
}

// serversWork describes the API servers that did not work for longer than the bound and those
// without a result, and returns the names of those that are not broken, and the longest time in which
// one did not work.
func serversWork(m *facts.Case, servers []string, from, to record.Nanos) (broken, unknown, working []string, worst time.Duration) {
	for _, s := range servers {
		_, problem := judgeGaps(m, []string{s}, from, to)
		unread, answers := facts.LongestUnread(m.Run, s, from, to)
		switch {
		case problem != nil && problem.Verdict == verdict.Fail:
			broken = append(broken, fmt.Sprintf("the API server on %s acknowledged no write for %s", s, problem.Measured))
			worst = max(worst, *problem.Value)
			continue
		case unread.Proven() > m.Bound.Limit:
			broken = append(broken, fmt.Sprintf("the API server on %s answered no quorum read for %s", s, text.Short(unread.Proven())))
			worst = max(worst, unread.Proven())
			continue
		case problem != nil:
			unknown = append(unknown, problem.Sentence)
		case answers == 0:
			unknown = append(unknown, "no quorum read through "+s+" was answered, but too few were tried to compare the gap with the bound")
		}
		working = append(working, s)
	}
	return broken, unknown, working, worst
}

// standbys describes the instances of elected components on nodes that are not hit.
type standbys struct {
	broken, unknown []string // as of serversWork
	instances       int
	worst           time.Duration // the longest time in which an instance had no response
	longest         time.Duration // of one that is broken, and had some
	never           int           // instances that had none
	allowed         verdict.Bound // of that instance
}

// instancesWork examines the instances of elected components on nodes that are not hit, by the
// audit logs of the working API servers.
func instancesWork(m *facts.Case, hit, servers []string, from, to record.Nanos) standbys {
	w := standbys{allowed: *m.Bound}
	for _, i := range standingBy(m, hit) {
		w.instances++
		allowed := mostSilence(m, i.component)
		gap, problem := unheard(m, i, from, to, allowed.Limit)
		silent := facts.SilentLog(m.Run, servers, gap)
		switch throughout := gap.From == from && gap.To == to; {
		case problem != "":
			w.unknown = append(w.unknown, problem)
		case gap.Length() <= allowed.Limit && throughout:
			w.unknown = append(w.unknown, fmt.Sprintf("%s had no request about its lease answered for %s, but by its retry period it may make none for %s", i, text.Short(gap.Length()), allowed))
		case gap.Length() <= allowed.Limit:
			if gap.Length() > w.worst {
				w.worst, w.allowed = gap.Length(), allowed
			}
		case silent != "":
			w.unknown = append(w.unknown, fmt.Sprintf("the audit logs show no answered request of %s about its lease from %s for %s, but the log of %s was not read for part of that time",
				i, text.When(gap.From), text.Short(gap.Length()), silent))
		default:
			w.broken = append(w.broken, fmt.Sprintf("%s had no request about its lease answered from %s for %s", i, text.When(gap.From), text.Short(gap.Length())))
			if gap.From == from && gap.To == to {
				w.never++
			} else {
				w.longest = max(w.longest, gap.Length())
			}
		}
	}
	return w
}

// mostSilence returns how long an instance of a component may have no request about its lease
// answered: the bound, or longer by its retry period. A standby instance reads the lease every P to
// 2.2P: k8s.io/client-go/tools/leaderelection waits between attempts by wait.JitterUntil with a
// JitterFactor of 1.2, which adds up to 1.2P to each P.
func mostSilence(m *facts.Case, component string) verdict.Bound {
	retries, err := verdict.ParseBound("2.2P + M", m.Settings(component))
	if err != nil || retries.Limit <= m.Bound.Limit {
		return *m.Bound
	}
	return retries
}

// standingBy returns the instances of elected components on nodes that are not hit. Components
// that supervisors elect are left out: they run only where they are active.
func standingBy(m *facts.Case, hit []string) (all []instance) {
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
// its lease was answered, or why that is not known: it must have had one answered not long before.
func unheard(m *facts.Case, i instance, from, to record.Nanos, before time.Duration) (longest facts.Gap, problem string) {
	var answers []record.Nanos
	known := false
	for _, v := range record.Each(slices.Concat(m.Run.Actions, m.Run.Asked)) {
		if !v.Election || v.Component != i.component || v.Node != i.node || v.Code < 200 || v.Code > 299 {
			continue
		}
		switch {
		case v.Completed > from && v.Completed < to:
			answers = append(answers, v.Completed)
		case v.Completed <= from && v.Completed >= from-record.Nanos(before):
			known = true
		}
	}
	if !known {
		return facts.Gap{}, fmt.Sprintf("the audit logs show no request of %s about its lease in the %s before", i, text.Short(before))
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
