package facts

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// onProcesses are the effects that end with a process, the lease of one component or whole nodes.
// onPlaces are those that other nodes may notice: through etcd, whose members wait for each other.
var (
	onProcesses = []record.Effect{record.EffectDown, record.EffectRestarted, record.EffectFrozen, record.EffectPower, record.EffectLease}
	onPlaces    = []record.Effect{record.EffectNetwork, record.EffectDisk, record.EffectClock, record.EffectCompacted, record.EffectLeadership}
)

// confined reports whether the fault acts only on one process, on the lease of one component, on
// whole nodes, or on the links, the disk, the clock or the etcd member of known ones. Any other
// fault may have consequences everywhere.
func confined(f *record.Fault) bool {
	if f.Has(record.EffectIsolated) {
		return true
	}
	known := len(f.Effects) > 0 && !slices.ContainsFunc(f.Effects, func(e record.Effect) bool {
		return !slices.Contains(onProcesses, e) && !slices.Contains(onPlaces, e)
	})
	somewhere := f.Node != "" || len(f.Nodes) > 0 || f.Host != ""
	return known && (somewhere || !f.Has(record.EffectNetwork, record.EffectDisk, record.EffectClock))
}

// placed reports whether a confined fault has effects that other nodes may notice.
func placed(f *record.Fault) bool { return !f.Has(record.EffectIsolated) && f.Has(onPlaces...) }

// Touching returns the injections that were active at any time between from and to, or
// less than after before it.
func (m *Case) Touching(from, to, after record.Nanos) (all []*Injection) {
	for _, inj := range m.Faults {
		first := inj.Injected
		if first == nil {
			first = inj.Failed
		}
		if first == nil || first.Called > to {
			continue
		}
		if inj.Healed == nil || !inj.Healed.Proven || from <= inj.HealEffect()+after {
			all = append(all, inj)
		}
	}
	return all
}

// Exit is the exit of a component's process, which was first seen to run at Since, and exited
// between From and To.
type Exit struct {
	Node, Component string
	Since, From, To record.Nanos
}

// Reached reports whether any of some injections, active at the same time, can make a component
// of a node exit. A fault of an elected component reaches that process alone, and one of its
// lease or clock each of its instances. A fault of an API server or of the load balancer can cost an
// instance of an elected component its lease on any node, so that it exits; a standby instance
// has nothing to lose. etcd depends on neither, on whatever node. A fault of etcd or of a node can do
// that too. It makes components of other nodes fail, and their supervisors restart them, only if it
// may cost etcd its quorum; an API server also if the member that leads is slow, or a member that it
// uses beside its own may be silent.
func (m *Case) Reached(by []*Injection, x Exit) bool {
	return slices.ContainsFunc(by, func(inj *Injection) bool {
		f := inj.Injected
		if f == nil || !confined(f) {
			return true
		}
		here := f.Host == x.Node || slices.Contains(inj.Nodes(), x.Node) || m.atOtherEnd(f, x.Node)
		switch {
		case m.isElected(f.Component) && len(f.Group) == 0:
			return (here || f.Has(record.EffectLease, record.EffectClock)) && x.Component == f.Component
		case x.Component == "etcd" && f.Component == "kube-apiserver" && len(f.Group) == 0 && !placed(f) && !f.Has(record.EffectIsolated, record.EffectPower):
			return false
		case here:
			return true
		case m.isElected(x.Component):
			return m.quorumInDoubt(by) || m.mayLose(by, x)
		case f.Hits("etcd") && (len(inj.Nodes()) == 0 || m.quorumInDoubt(by)):
			return true
		case x.Component == "kube-apiserver" && len(m.Silenced(inj)) > 0:
			return true
		case !placed(f):
			return false
		case x.Component == "kube-apiserver":
			return f.Hits("etcd") && m.mayLead(inj.Nodes(), f.Called-record.Nanos(m.Run.Meta.Settings["M"]), x.To)
		}
		return x.Component != "etcd"
	})
}

// removalStall is how long an etcd leader that removes a member without power may send nothing to the
// others: its two streams to that member hang in a write for 5 s each (Transport.RemovePeer and
// ConnWriteTimeout in go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp).
const removalStall = 10 * time.Second

// Stalled reports whether an instance of an elected component may have lost its lease, so that it
// exited, because of the loss of another node: the etcd member of its node led and removed one
// without power, or its API server still used the member without power, which may make the API
// server exit as well. If a member that leads sends nothing, another one reports that it follows no
// leader, or another one.
func (m *Case) Stalled(x Exit) bool {
	s := m.Settings(x.Component)
	late, margin := record.Nanos(s["R"]+s["P"]+s["M"]), record.Nanos(s["M"])
	silent := len(m.lostMembers(x.From-late, x.To)) > 0
	if !m.isElected(x.Component) {
		return silent && x.Component == "kube-apiserver"
	}
	if silent && m.mayHold(x.Component, x.Node, x.From-late, x.To) {
		return true
	}
	return slices.ContainsFunc(m.Run.Steps, func(t record.Timed[record.Step]) bool {
		began, done := t.V.Began, t.V.Done
		lost := slices.ContainsFunc(m.Run.Nodes, func(c record.Timed[record.NodeChange]) bool {
			return c.V.Phase == record.NodeLost && c.V.Node.Name == t.V.Node && c.V.Called <= began && done <= c.At
		})
		return lost && t.V.Name == record.StepRemove && began <= x.To && x.From <= done+record.Nanos(removalStall)+late &&
			m.mayLead([]string{x.Node}, began-margin, done) && m.left(x.Node, began, x.To) && m.mayHold(x.Component, x.Node, began-late, x.To)
	})
}

// left reports whether an etcd member between two times did not follow the one on a node.
func (m *Case) left(node string, from, to record.Nanos) bool {
	led := LastStatus(m.Run, node, to).Member
	return slices.ContainsFunc(m.Run.Etcd, func(e record.Timed[record.EtcdStatus]) bool {
		return e.V.OK && e.V.Node != node && e.V.Leader != led && e.At >= from && e.At <= to
	})
}

// atOtherEnd reports whether a node may be at the other end of the links that a fault names. Its
// nodes have numbers in the order of joining.
func (m *Case) atOtherEnd(f *record.Fault, node string) bool {
	i := slices.IndexFunc(m.Run.Meta.Nodes, func(n record.Node) bool { return n.Name == node })
	return slices.ContainsFunc(text.SplitList(f.Params["peer"]), func(peer string) bool {
		peer = strings.TrimPrefix(peer, "node/")
		number, err := strconv.Atoi(peer)
		switch {
		case m.WasNode(peer):
			return peer == node
		case err == nil:
			return i < 0 || len(m.Run.Nodes) > 0 || i+1 == number
		}
		return strings.Contains(peer, "/") // a zone
	})
}

// mayLose reports whether an instance of an elected component may have exited because it lost its
// lease, or could not start: it may have held the lease since the first of some injections, or
// have been started since. Any other instance stands by, whatever becomes of the API servers.
func (m *Case) mayLose(by []*Injection, x Exit) bool {
	first := x.From
	for _, inj := range by {
		if inj.Injected != nil {
			first = min(first, inj.Injected.Called)
		}
	}
	s := m.Settings(x.Component)
	return x.Since > first || m.mayHold(x.Component, x.Node, first-record.Nanos(s["R"]+s["P"]+s["M"]), x.To)
}

// mayHold reports whether an instance may have held the lease of a component at some time between
// from and to. If the lease was seen to change hands more than once between two states, or was
// not seen until the end, any instance may have held it.
func (m *Case) mayHold(component, node string, from, to record.Nanos) bool {
	states := LeaseStates(m.Run, component, 0, m.Run.EndAt)
	if len(states) == 0 || LockReads(m.Run)[component] != nil || m.wroteLease(component, node, from, to) {
		return true
	}
	seen := record.Nanos(0)
	for i, s := range states {
		later := i+1 < len(states) && states[i+1].At <= from
		if later {
			continue // another state is the last one before
		}
		if HolderNode(s.V) == node {
			return true
		}
		if seen = max(seen, s.At); s.At > to {
			return false
		}
		if i+1 < len(states) {
			if t := states[i+1].V.Transitions - s.V.Transitions; t < 0 || t > 1 {
				return true
			}
		}
	}
	return text.Span(seen, to) > m.Settings(component)["L"]
}

// wroteLease reports whether an audit log has a write of its lease by an instance between two
// times.
func (m *Case) wroteLease(component, node string, from, to record.Nanos) bool {
	return slices.ContainsFunc(m.Run.Actions, func(a record.Timed[record.Action]) bool {
		return a.V.Election && a.V.Component == component && a.V.Node == node && a.V.Code >= 200 && a.V.Code <= 299 && a.At >= from && a.At <= to
	})
}

func (m *Case) mayLead(nodes []string, from, to record.Nanos) bool {
	leaders := map[string]bool{}
	for _, e := range m.Run.Etcd {
		if e.At >= from && e.At <= to && e.V.Leader != "" {
			leaders[e.V.Leader] = true
		}
	}
	return len(leaders) == 0 || slices.ContainsFunc(m.Run.Etcd, func(e record.Timed[record.EtcdStatus]) bool {
		return slices.Contains(nodes, e.V.Node) && leaders[e.V.Member]
	})
}

func (m *Case) isElected(component string) bool {
	return slices.Contains(text.SplitList(DefaultElected), component) ||
		slices.ContainsFunc(m.Run.Leases, func(l record.Timed[record.Lease]) bool { return l.V.Name == component })
}

// quorumInDoubt reports whether injections hit so many etcd members that the others may not be a
// majority.
func (m *Case) quorumInDoubt(by []*Injection) bool {
	hit := map[string]bool{}
	for _, inj := range by {
		if inj.Injected == nil || inj.Injected.Hits("etcd") {
			for _, n := range inj.Nodes() {
				hit[n] = true
			}
		}
	}
	members, left := 0, 0
	for _, n := range NodeLives(m.Run) {
		if slices.Contains(n.Components, "etcd") {
			if members++; !hit[n.Name] {
				left++
			}
		}
	}
	return 2*left <= members
}

// DefaultElected are the elected components of every cluster.
const DefaultElected = "kube-controller-manager,kube-scheduler"

// AddonManager is the component that applies add-ons. Every instance acts; none is elected.
const AddonManager = "addon-manager"
