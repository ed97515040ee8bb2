package judges

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// olderLead is a time in which the active instance of an elected component was of an older minor
// version than an API server that served.
type olderLead struct {
	component, node, version string
	server, newer            string
	from, to                 record.Nanos
	renewals, acts           int
}

// String implements fmt.Stringer.
func (l olderLead) String() string {
	return fmt.Sprintf("%s %s on %s was active beside kube-apiserver %s on %s from %s to %s, with %s of its lease and %s", l.component, l.version, l.node,
		l.newer, l.server, text.When(l.from), text.When(l.to), text.Plural(l.renewals, "renewal"), text.Plural(l.acts, "action"))
}

// olderLeads returns such a time of each elected component that has one of two retry periods or
// more in which the lease was renewed twice. It is a failure if the lease is neither renewed nor
// taken over in such a time, without a fault that could be the reason.
func olderLeads(m *facts.Case) (all []olderLead, broken *Finding) {
	for _, component := range text.SplitList(facts.DefaultElected) {
		var best olderLead
		period := m.Settings(component)["P"]
		for _, h := range heldTimes(m, component) {
			for _, l := range h.beside(m, component) {
				if f := h.standsStill(m, l); f != nil {
					return nil, f
				}
				if text.Span(l.from, l.to) >= 2*period && l.renewals >= 2 && text.Span(l.from, l.to) > text.Span(best.from, best.to) {
					best = l
				}
			}
		}
		if best.node != "" {
			all = append(all, best)
		}
	}
	return all, nil
}

// heldTime is a time in which one instance held a lease without a break.
type heldTime struct {
	node   string
	states []record.Timed[record.Lease] // in the order of their versions
	until  record.Nanos                 // when a newer state of the lease was seen
}

// heldTimes returns who held the lease of a component, one after the other.
func heldTimes(m *facts.Case, component string) (all []heldTime) {
	holder := ""
	for _, s := range facts.LeaseStates(m.Run, component, 0, m.Run.EndAt) {
		if s.V.Holder != holder {
			if n := len(all); n > 0 {
				all[n-1].until = min(all[n-1].until, s.At)
			}
			if holder = s.V.Holder; holder != "" {
				all = append(all, heldTime{node: facts.HolderNode(s.V), until: facts.Endless})
			}
		}
		if holder != "" {
			all[len(all)-1].states = append(all[len(all)-1].states, s)
		}
	}
	return all
}

// seen returns when the holder was first and last seen.
func (h heldTime) seen() (from, to record.Nanos) {
	from, to = facts.Endless, 0
	for _, s := range h.states {
		from, to = min(from, s.At), max(to, min(s.At, h.until))
	}
	return from, to
}

// beside returns the times in which the instance was of an older version than an API server.
func (h heldTime) beside(m *facts.Case, component string) (all []olderLead) {
	from, to := h.seen()
	own, servers := stagesOf(m, h.node, component), map[string][]versionStage{}
	bounds := []record.Nanos{from}
	add := func(stages []versionStage) {
		for _, s := range stages {
			if s.at > from && s.at < to {
				bounds = append(bounds, s.at)
			}
		}
	}
	add(own)
	for _, n := range m.NodesWith("kube-apiserver") {
		servers[n.Name] = stagesOf(m, n.Name, "kube-apiserver")
		add(servers[n.Name])
	}
	slices.Sort(bounds)
	bounds = append(bounds, to)
	for i, at := range bounds[:len(bounds)-1] {
		next := bounds[i+1]
		version := versionAt(own, at)
		server, newer := newerServer(m, servers, version, at)
		switch n := len(all); {
		case server == "" || next <= at:
		case n > 0 && all[n-1].to == at && all[n-1].version == version:
			all[n-1].to = next
		default:
			all = append(all, olderLead{component: component, node: h.node, version: version, server: server, newer: newer, from: at, to: next})
		}
	}
	d := facts.ActionsOf(m.Run, component, m.Run.Meta.Settings["M"])
	for i := range all {
		l := &all[i]
		renewed := map[int64]bool{}
		for _, s := range h.states {
			if s.At >= l.from && s.At <= l.to {
				renewed[s.V.Renew.UnixNano()] = true
			}
		}
		l.renewals = max(0, len(renewed)-1)
		for _, a := range d.Acts {
			if a.Node == h.node && a.Received >= l.from && a.Received <= l.to {
				l.acts++
			}
		}
	}
	return all
}

// standsStill returns a failure if the lease was neither renewed nor taken over for longer than a
// standby takes, twice as often as it tries.
func (h heldTime) standsStill(m *facts.Case, l olderLead) *Finding {
	limit := m.ElectionLimit(l.component, slices.ContainsFunc(h.states, func(s record.Timed[record.Lease]) bool { return s.V.Strategy != "" }))
	if len(m.Touching(l.from, l.to, record.Nanos(m.Settings(l.component)["M"]))) > 0 {
		return nil
	}
	for i := 0; i < len(h.states); {
		// The states with one renewal, and when the first newer one was seen.
		n, first, last, newer := i, facts.Endless, record.Nanos(0), h.until
		for ; n < len(h.states) && h.states[n].V.Renew.Equal(h.states[i].V.Renew); n++ {
			if at := h.states[n].At; at >= l.from && at <= l.to {
				first, last = min(first, at), max(last, at)
			}
		}
		for _, later := range h.states[n:] {
			newer = min(newer, later.At)
		}
		last = min(last, newer)
		if stood := text.Span(first, last); first < last && stood > limit {
			return Failed("The active instance of %s must work with an API server of a newer version in the cluster: %s %s on %s held its lease while %s on %s served, and from %s on the lease was neither renewed nor taken over for %s.",
				l.component, l.component, l.version, l.node, l.newer, l.server, text.When(first), text.Short(stood)).Rests(first, last).problem()
		}
		i = n
	}
	return nil
}

// versionStage is from when on a component has a version: none while it restarts.
type versionStage struct {
	at      record.Nanos
	version string
}

func stagesOf(m *facts.Case, node, component string) []versionStage {
	all := []versionStage{{0, m.Run.Meta.Versions[node][component]}}
	for _, t := range m.Run.Steps {
		if s := t.V; s.Node == node && s.Component == component {
			all = append(all, versionStage{s.Began, ""}, versionStage{s.Done, s.Version})
		}
	}
	slices.SortStableFunc(all, func(a, b versionStage) int { return cmp.Compare(a.at, b.at) })
	return all
}

func versionAt(all []versionStage, t record.Nanos) (version string) {
	for _, s := range all {
		if s.at <= t {
			version = s.version
		}
	}
	return version
}

// newerServer returns an API server that is of a newer minor version at a time, and its version.
func newerServer(m *facts.Case, servers map[string][]versionStage, version string, at record.Nanos) (node, newer string) {
	own, ok := facts.ParseMinor(version)
	if !ok {
		return "", ""
	}
	for _, n := range m.NodesWith("kube-apiserver") {
		is := versionAt(servers[n.Name], at)
		if v, ok := facts.ParseMinor(is); ok {
			if by, same := v.Newer(own); same && by > 0 {
				return n.Name, is
			}
		}
	}
	return "", ""
}

// astray describes a renewal of a component's lease through the API server of another node than the
// holder's, by a request from an address that is not a node's, as through a load balancer; empty
// without one. Only the holder renews a lease.
func astray(m *facts.Case, component string) string {
	s := m.Settings(component)
	margin := record.Nanos(s["M"])
	for _, h := range heldTimes(m, component) {
		if !m.WasNode(h.node) {
			continue
		}
		for _, t := range m.Run.Actions {
			a := t.V
			renewal := a.Component == component && a.Name == component && a.Node == "" && a.Election && (a.Verb == "update" || a.Verb == "patch") && a.Code >= 200 && a.Code <= 299
			// The stamps are of the API server's clock.
			timely := t.At-a.Completed <= margin && a.Completed-t.At <= margin
			if renewal && timely && a.Via != h.node && h.throughout(a.Received-margin, t.At+margin, s["L"]) {
				return fmt.Sprintf("the lease of %s was renewed through the API server on %s while the instance on %s held it (%s, by a request from an address that is not a node's)",
					component, a.Via, h.node, text.When(a.Received))
			}
		}
	}
	return ""
}

// throughout reports whether the holder was seen before and after a period, in less time than it
// takes to lose the lease and to regain it.
func (h heldTime) throughout(from, to record.Nanos, expiry time.Duration) bool {
	before, after := record.Nanos(-1), facts.Endless
	for _, s := range h.states {
		if s.At <= from {
			before = max(before, s.At)
		}
		if s.At >= to && s.At <= h.until {
			after = min(after, s.At)
		}
	}
	return before >= 0 && after < facts.Endless && text.Span(before, after) < expiry
}
