package reports

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// EntryLine formats an entry of a record as one line of text without a line feed: its time in
// seconds, its kind and its content. v is the entry's value.
func EntryLine(e record.Entry, v any) string {
	line := fmt.Sprintf("%9.3f  %-9s  %s", time.Duration(e.At).Seconds(), e.Kind, words(v))
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) { // such as the line feeds of an error
			return ' '
		}
		return r
	}, line)
}

func words(v any) string {
	switch v := v.(type) {
	case record.Meta:
		return metaWords(v)
	case record.Phase:
		return v.Name + " begins"
	case record.Op:
		return opWords(v)
	case record.Probe:
		return probeWords(v)
	case record.Endpoints:
		return endpointsWords(v)
	case record.Lease:
		return leaseWords(v)
	case record.EtcdStatus:
		return etcdWords(v)
	case record.ProcessState:
		return processWords(v)
	case record.Fault:
		return faultWords(v)
	case record.Steady:
		return steadyWords(v)
	case record.Harness:
		said := fmt.Sprintf("timers up to %s late, %.1f tasks per CPU, %.0f %% of CPU time used", brief(v.Late), v.Queue, 100*v.Busy)
		if v.Throttled > 0 {
			said += fmt.Sprintf(", a CPU quota used up in %.0f %% of its periods", 100*v.Throttled)
		}
		return said
	case record.List:
		return listWords(v)
	case record.Watch:
		return watchWords(v)
	case record.Event:
		return eventWords(v)
	case record.Action:
		return actionWords(v)
	case record.Backend:
		return backendWords(v)
	case record.NodeChange:
		return nodeWords(v)
	case record.Step:
		return stepWords(v)
	case record.Object:
		return objectWords(v)
	case record.Session:
		return sessionWords(v)
	case record.End:
		if v.Error != "" {
			return "the run stopped early: " + v.Error
		}
		return "the run ended as planned"
	}
	return ""
}

func metaWords(m record.Meta) string {
	nodes := make([]string, len(m.Nodes))
	for i, n := range m.Nodes {
		nodes[i] = n.Name + " (" + n.Address + ")"
	}
	return fmt.Sprintf("scenario %s of run %s, seed %d, started %s by holdfast %s on provider %s; nodes %s; entrances %s; %d checks",
		m.Scenario, m.Run, m.Seed, m.Started.UTC().Format(time.RFC3339Nano), m.Harness, m.Provider,
		strings.Join(nodes, ", "), strings.Join(m.Entrances, ", "), len(m.Checks))
}

// whose names a client and its entrance to the cluster.
func whose(client, entrance, api string) string {
	if api == "etcd" {
		entrance = "etcd on " + entrance
	}
	return client + " through " + entrance
}

func opWords(o record.Op) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s of %s", whose(o.Client, o.Entrance, o.API), o.Type, o.Key)
	read := o.Type == record.OpGet
	switch {
	case read && o.Consistency != "":
		fmt.Fprintf(&b, " (%s)", o.Consistency)
	case !read && o.Type != record.OpDelete:
		fmt.Fprintf(&b, " to %q", o.Value)
	}
	if o.Expect != "" {
		b.WriteString(" replacing version " + o.Expect)
	}
	b.WriteString(", " + came(o.Outcome, 0, o.Error))
	switch {
	case o.Outcome != record.OK || !read:
	case o.Found:
		fmt.Fprintf(&b, ", %q", o.Value)
	default:
		b.WriteString(", nothing there")
	}
	b.WriteString(optional(", version ", o.Revision) + took(o.Call, o.Return) + optional(", of transaction ", o.Transaction) + optional(", for ", o.Purpose))
	return b.String()
}

// came describes the outcome of a request.
func came(outcome record.Outcome, status int, problem string) string {
	var s string
	switch outcome {
	case record.OK:
		return "ok"
	case record.Unknown:
		s = "outcome unknown"
	default:
		s = string(outcome)
	}
	return s + httpStatus(status) + optional(": ", problem)
}

func httpStatus(status int) string {
	if status == 0 {
		return ""
	}
	return fmt.Sprintf(" with status %d", status)
}

func optional(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

func took(from, to record.Nanos) string { return " (" + brief(time.Duration(to-from)) + ")" }

// brief formats a duration with as many digits as are significant.
func brief(d time.Duration) string {
	if d < time.Millisecond {
		return d.Round(time.Microsecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

func probeWords(p record.Probe) string {
	connection := "a new"
	if p.Reused {
		connection = "a persistent"
	}
	result := "ok"
	if !p.OK {
		result = "failed" + httpStatus(p.Status) + optional(": ", p.Error)
	}
	return fmt.Sprintf("%s through %s on %s connection, %s%s", p.Kind, p.Entrance, connection, result, took(p.Start, p.End))
}

func endpointsWords(e record.Endpoints) string {
	addresses := cmp.Or(strings.Join(e.Addresses, ", "), "none")
	how := "change"
	if e.Sample {
		how = "reading"
	}
	return fmt.Sprintf("%s through %s: %s (%s%s)", e.Source, e.Via, addresses, how, optional(", version ", e.Revision))
}

func leaseWords(l record.Lease) string {
	holder := "held by " + l.Holder
	if l.Holder == "" {
		holder = "not held"
	}
	renewed := ""
	if !l.Renew.IsZero() {
		renewed = ", renewed " + l.Renew.UTC().Format("15:04:05.000")
	}
	return fmt.Sprintf("%s: %s%s, %d transitions%s, through %s", l.Name, holder, renewed, l.Transitions, optional(", version ", l.Revision), l.Via)
}

func etcdWords(e record.EtcdStatus) string {
	if !e.OK {
		return e.Node + ": no answer" + optional(": ", e.Error)
	}
	s := fmt.Sprintf("%s: member %s", e.Node, e.Member)
	if e.Learner {
		s += ", a learner"
	}
	if e.Leader == "" {
		s += ", no leader"
	}
	s += fmt.Sprintf("%s, term %d, raft index %d, revision %d", optional(", leader ", e.Leader), e.Term, e.RaftIndex, e.Revision)
	if e.HashRevision != 0 {
		s += fmt.Sprintf(", hash %08x at revision %d", e.Hash, e.HashRevision)
	}
	return s + optional(", alarms ", strings.Join(e.Alarms, ", "))
}

func processWords(p record.ProcessState) string {
	s := p.Component + " on " + p.Node
	if p.PID == 0 {
		s += ": no process"
	} else {
		s += fmt.Sprintf(": process %d%s", p.PID, optional(", state ", p.State))
	}
	return s + fmt.Sprintf(", %d restarts", p.Restarts) + optional(", last exit: ", p.LastExit) + optional(", error: ", p.Error)
}

func faultWords(f record.Fault) string {
	var where []string
	for _, w := range append([]string{f.Component, f.Node, f.Host}, f.Nodes...) {
		if w != "" {
			where = append(where, w)
		}
	}
	s := fmt.Sprintf("%s: %s of %s%s %s", f.ID, f.Name, f.Target, optional(" = ", strings.Join(where, " ")), f.Phase)
	if len(f.Group) > 0 {
		s += ", one process: " + strings.Join(f.Group, ", ")
	}
	s += fmt.Sprintf(", called at %s", moment(f.Called))
	if f.Effect != 0 {
		s += ", effect at " + moment(f.Effect)
	}
	switch {
	case f.Phase == record.FaultFailed:
	case f.Proven:
		s += ", proven" + optional(": ", f.Proof)
	default:
		s += ", not proven" + optional(": ", f.Proof)
	}
	return s + optional(", error: ", f.Error)
}

func moment(t record.Nanos) string { return fmt.Sprintf("%.3fs", time.Duration(t).Seconds()) }

func steadyWords(s record.Steady) string {
	if s.Phase == record.SteadyPart {
		s.Phase = s.Part
	}
	if s.OK {
		return fmt.Sprintf("%s: the steady state held after %s (limit %s)", s.Phase, brief(s.Took), s.Limit)
	}
	return fmt.Sprintf("%s: the steady state did not hold in %s (limit %s)%s", s.Phase, brief(s.Took), s.Limit, optional(": ", strings.Join(s.Problems, "; ")))
}

func listWords(l record.List) string {
	how := string(l.Match) + optional(" ", l.Asked)
	if l.Limit > 0 {
		how += fmt.Sprintf(", pages of %d", l.Limit)
	}
	s := fmt.Sprintf("%s: list of %s%s (%s), %s", whose(l.Client, l.Entrance, l.API), l.Collection, optional(", group ", l.Group), how,
		came(l.Outcome, l.Status, l.Error))
	if l.Outcome == record.OK {
		s += fmt.Sprintf(", %d items in %d pages", len(l.Items), len(l.Pages))
		if len(l.Pages) > 0 {
			s += optional(", version ", l.Pages[0].Revision)
		}
	}
	return s + took(l.Call, l.Return) + optional(", for ", l.Purpose)
}

func watchWords(w record.Watch) string {
	s := fmt.Sprintf("%s of %s: %s", w.ID, whose(w.Client, w.Entrance, w.API), w.Phase)
	if w.Phase == record.WatchEnded {
		return s + httpStatus(w.Status) + optional(", compacted up to ", w.Compacted) + optional(": ", w.Error)
	}
	s += httpStatus(w.Status) + ", on " + w.Collection + optional(", key ", w.Key) + optional(", group ", w.Group) +
		optional(" from version ", w.From)
	for _, option := range []struct {
		asked bool
		name  string
	}{{w.Initial, "initial events"}, {w.Bookmarks, "bookmarks"}, {w.Previous, "previous values"}} {
		if option.asked {
			s += ", with " + option.name
		}
	}
	return s + optional(", resumes ", w.Resumes) + took(w.Called, w.Seen) + optional(", compacted up to ", w.Compacted) + optional(": ", w.Error)
}

func eventWords(e record.Event) string {
	s := e.Watch + ": " + string(e.Type)
	if e.Type != record.EventBookmark {
		s += " " + e.Key
	}
	if e.Type == record.EventAdded || e.Type == record.EventModified {
		s += fmt.Sprintf(" to %q", e.Value)
	}
	s += optional(", version ", e.Revision) + optional(", group ", e.Group)
	if e.InitialEnd {
		s += ", the initial events end"
	}
	if e.Batch != 0 {
		s += fmt.Sprintf(", response %d", e.Batch)
	}
	if e.PreviousRevision != "" {
		s += fmt.Sprintf(", before it %q of version %s", e.PreviousValue, e.PreviousRevision)
	}
	return s
}

func actionWords(a record.Action) string {
	what := a.Verb + " of " + a.Resource + optional("/", a.Subresource) + optional(" ", strings.Trim(a.Namespace+"/"+a.Name, "/"))
	where := cmp.Or(a.Node, "an unknown node")
	if a.Election {
		what += " (election)"
	}
	return fmt.Sprintf("%s on %s through %s: %s, status %d, received %s%s", a.Component, where, a.Via, what, a.Code, moment(a.Received), took(a.Received, a.Completed))
}

func sessionWords(s record.Session) string {
	said := "member " + s.Member + " answered"
	if s.Member == "" {
		said = "no member answered: " + s.Error
	}
	return fmt.Sprintf("%s through the balancer of etcd, %s to %s: %s", s.Client, moment(s.Start), moment(s.End), said)
}

func backendWords(b record.Backend) string {
	if b.Missing != "" {
		return "the balancer never reports: " + b.Missing
	}
	if b.Error != "" {
		return b.Name + ": the balancer did not report: " + b.Error
	}
	state := "down"
	if b.Up {
		state = "up"
	}
	return fmt.Sprintf("%s (%s) is %s since %s%s", b.Name, b.Address, state, moment(b.Since), optional(", last check: ", b.Check))
}

func nodeWords(n record.NodeChange) string {
	name := n.Node.Name
	if n.Node.Address != "" {
		name += " (" + n.Node.Address + ")"
	}
	if n.Phase == record.NodeFailed {
		return fmt.Sprintf("a change of nodes failed%s, called at %s: %s", optional(": ", name), moment(n.Called), n.Error)
	}
	if n.Phase == record.NodeChanged {
		interrupted := ""
		if n.Interrupted > 0 {
			interrupted = fmt.Sprintf(", interrupted after step %d", n.Interrupted)
		}
		return fmt.Sprintf("%s of %s%s%s%s%s, called at %s, in effect at %s", n.Action, name, optional(" as ", n.Name),
			optional(" from ", n.From), optional(" to ", n.To), interrupted, moment(n.Called), moment(n.Effect))
	}
	return fmt.Sprintf("%s is %s%s, called at %s, in effect at %s", name, n.Phase, optional(" as ", n.Name), moment(n.Called), moment(n.Effect))
}

func stepWords(s record.Step) string {
	return fmt.Sprintf("%s%s%s: %s%s", s.Name, optional(" on ", s.Node), optional(" of ", s.Change), cmp.Or(s.Proof, "done"), took(s.Began, s.Done))
}
