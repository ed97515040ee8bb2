package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Overlap is how one instance acted after another had taken over.
type Overlap struct {
	Component, Node, Rival string
	Times                  int
	// Took is how long after the takeover it last acted, Allowed how long it may.
	Took, Allowed time.Duration
}

func (o Overlap) String() string {
	return fmt.Sprintf("the instance of %s on %s acted %s at the same time as the one on %s, the last time %s after that one had taken over (limit %s)",
		o.Component, o.Node, text.Plural(o.Times, "time"), o.Rival, text.Short(o.Took), text.Short(o.Allowed))
}

// Untimed returns an action of unknown time, because the clock of its API server differs from the
// harness's, by an instance that another had taken over from when the action entered the audit
// log; nil if there is none. A late entry does not count if the API server's other entries of
// that time show that its clock agrees, nor does one of when a fault was moving the clock.
func (d Actions) Untimed(m *Case) *Act {
	for i, act := range d.Doubtful {
		logged := act
		logged.Received = act.At
		log := d.logs[act.Via]
		agrees := log.agrees(act.At) && (!log.ahead || act.Completed > act.At)
		if _, rival := d.Lease(logged); act.Election || rival == nil || act.At <= rival.Completed || m.clockMoving(act.Via, act.At) || agrees {
			continue
		}
		return &d.Doubtful[i]
	}
	return nil
}

// Act is an action that can be compared with others: its instance is known, it took effect, and
// the clock of its API server agrees with the harness's, also if it was read late, or a fault moved
// it by a known time, so that its stamps are corrected.
type Act struct {
	record.Action
	At record.Nanos
}

// Actions are those of one component, in the order in which they were received.
type Actions struct {
	Component string
	Acts      []Act // what only the active instance may do
	Elections []Act // acquisitions and renewals of the lease
	// Doubtful are actions left out because of the clock of their API server.
	Doubtful []Act
	// Unattributed are what only the active instance may do, by an unknown instance: the source
	// address of the request is not a node's, as behind a load balancer.
	Unattributed []Act

	logs map[string]*auditLog // by API server
}

// ActionsOf classifies the actions of a component. An audit entry is logged right after it
// completes. So a stamp that is older than the time it takes to be seen, at most margin, or that
// is from afterwards, comes from another clock, unless the entry was only read late. It is
// corrected if a fault moved that clock by a known time.
func ActionsOf(run *record.Run, component string, margin time.Duration) Actions {
	shifts := clockShifts(run, margin)
	d := Actions{Component: component, logs: auditLogs(run, shifts, margin)}
	for _, t := range run.Actions {
		t = rebased(t, shifts, margin)
		a := t.V
		if a.Component != component || a.Code < 200 || a.Code > 299 || slices.Contains(announcements, a.Resource) {
			continue
		}
		switch act := (Act{a, t.At}); {
		case a.Node == "" && !a.Election:
			d.Unattributed = append(d.Unattributed, act)
		case a.Node == "": // the lease says who made it; see Unrecorded
		case doubtfulStamps(t, margin) && !d.logs[a.Via].late(t):
			d.Doubtful = append(d.Doubtful, act)
		case a.Election:
			d.Elections = append(d.Elections, act)
		default:
			d.Acts = append(d.Acts, act)
		}
	}
	for _, list := range [][]Act{d.Acts, d.Elections} {
		slices.SortStableFunc(list, func(a, b Act) int { return cmp.Compare(a.Received, b.Received) })
	}
	return d
}

// Lease returns the last lease write of the action's instance before it, and the
// first one of another after that; nil if none exists.
func (d Actions) Lease(act Act) (own, rival *Act) {
	for i := range d.Elections {
		e := &d.Elections[i]
		switch {
		case e.Received > act.Received:
			return own, rival
		case e.Node == act.Node:
			own, rival = e, nil
		case rival == nil:
			rival = e
		}
	}
	return own, rival
}

// Unseen returns a lease write of the action's instance, after an earlier one, that may be the one
// by which it acted: it is not among the elections, because of the clock of its API server.
func (d Actions) Unseen(act Act, own *Act, margin time.Duration) *Act {
	for i, e := range d.Doubtful {
		if e.Election && e.Node == act.Node && (own == nil || e.At > own.At) && e.At <= act.At+record.Nanos(margin) {
			return &d.Doubtful[i]
		}
	}
	return nil
}

// Ahead reports whether some entries of the audit logs of API servers come from clocks that are
// ahead of the harness's. Then the stamps of entries that were read late may agree by chance.
func (d Actions) Ahead(servers ...string) bool {
	return slices.ContainsFunc(d.Doubtful, func(a Act) bool { return slices.Contains(servers, a.Via) && a.Completed > a.At })
}

// Unrecorded returns the node of an instance that was seen to renew its lease for longer than it
// may skip renewals, although no audit log has any lease write by it: then its other actions are
// in no log either.
func (d Actions) Unrecorded(m *Case) string {
	first, moved := map[string]time.Time{}, clockFaults(m.Run)
	for _, l := range m.Run.Leases {
		node := HolderNode(l.V)
		hidden := slices.ContainsFunc(moved, func(inj *Injection) bool { return slices.Contains(inj.Nodes(), node) }) &&
			slices.ContainsFunc(d.Doubtful, func(e Act) bool { return e.Election && e.Node == node })
		if l.V.Name != d.Component || !m.WasNode(node) || hidden || slices.ContainsFunc(d.Elections, func(e Act) bool { return e.Node == node }) {
			continue
		}
		if since, seen := first[node]; !seen {
			first[node] = l.V.Renew
		} else if l.V.Renew.Sub(since) > 2*m.Settings(d.Component)["P"] {
			return node
		}
	}
	return ""
}

func DescribeAction(a record.Action) string {
	what := a.Resource
	if a.Subresource != "" {
		what += "/" + a.Subresource
	}
	name := strings.Trim(a.Namespace+"/"+a.Name, "/")
	by := a.Component + " on " + a.Node
	if a.Node == "" {
		by = "an unknown instance of " + a.Component + " through the API server on " + a.Via
	}
	return fmt.Sprintf("%s of %s %s by %s (status %d, received %s, completed %s)",
		a.Verb, what, name, by, a.Code, text.When(a.Received), text.When(a.Completed))
}

func doubtfulStamps(a record.Timed[record.Action], margin time.Duration) bool {
	lag := time.Duration(a.At - a.V.Completed)
	return lag < -stampAhead || lag > margin-stampAhead || a.V.Received > a.V.Completed
}

// stampAhead is how far ahead of the harness's clock an audit stamp may be: NTP ordinarily
// keeps clocks right to within a few tens of milliseconds (RFC 1128). Two API servers' clocks thus
// differ by the margin at most.
const stampAhead = 100 * time.Millisecond

// announcements are resources whose changes are not actions: events, and the candidacies that
// standby instances announce in coordinated leader election, which older records contain.
var announcements = []string{"events", "events.k8s.io/events", "coordination.k8s.io/leasecandidates"}

// Reachable reports whether an API server was seen to receive a request after from and to answer
// it before to: then no request that it received at to had waited in front of it since from.
func Reachable(run *record.Run, node string, from, to record.Nanos) bool {
	return slices.ContainsFunc(run.Probes, func(p record.Timed[record.Probe]) bool {
		return p.V.Entrance == node && p.V.OK && p.V.Start > from && p.V.End < to
	})
}

// Thawed returns when a component on a node, or the whole node, was thawed last up to a time; 0 if it
// was not.
func (m *Case) Thawed(component, node string, to record.Nanos) (last record.Nanos) {
	for _, inj := range m.Faults {
		if in := inj.Injected; in == nil || !in.Has(record.EffectFrozen) || !in.Hits(component) || !slices.Contains(inj.Nodes(), node) || inj.Healed == nil {
			continue
		}
		if t := inj.HealEffect(); inj.Healed.Called <= to {
			last = max(last, t)
		}
	}
	return last
}

// MayHaveWaited reports whether a request that an API server received may have been sent to it before
// from: no other one that was sent later was answered earlier, or the API server was thawed a moment
// ago, and reads its connections in any order.
func (m *Case) MayHaveWaited(act Act, from record.Nanos) bool {
	if t := m.Thawed("kube-apiserver", act.Via, act.Received); t > from && act.Received < t+record.Nanos(m.Run.Meta.Settings["M"]) {
		return true
	}
	return !Reachable(m.Run, act.Via, from, act.Received)
}

// SilentLog returns an API server whose audit log was read too rarely in a period to conclude
// that a request did not arrive; empty if all were read. The observer notes once a second that a
// log has entries; an API server that does not work may have none.
func SilentLog(run *record.Run, servers []string, g Gap) string {
	for _, s := range servers {
		n := 0
		for _, a := range run.Asked {
			if a.V.Via == s && a.V.Verb == "" && a.At >= g.From && a.At <= g.To {
				n++
			}
		}
		if time.Duration(n)*2*time.Second < g.Length() {
			return s
		}
	}
	return ""
}
