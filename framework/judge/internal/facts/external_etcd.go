package facts

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// A member of an external etcd has a host of its own: no API server depends on it alone, and each
// API server uses it beside the others. So does an API server with several members configured,
// also if each has a node that it shares with an API server.

// EtcdAlone reports whether a node runs an etcd member and no API server.
func EtcdAlone(n record.Node) bool {
	return slices.Contains(n.Components, "etcd") && !slices.Contains(n.Components, "kube-apiserver")
}

// EtcdAlone reports whether the node of a name runs an etcd member and no API server.
func (m *Case) EtcdAlone(node string) bool {
	return slices.ContainsFunc(m.Run.Meta.Nodes, func(n record.Node) bool { return n.Name == node && EtcdAlone(n) })
}

// RemoteEtcd is the part of a bound that counts on members of other nodes.
const RemoteEtcd = "remote etcd"

// silencing are the effects that leave the connections of a process open, and unanswered.
var silencing = []record.Effect{record.EffectFrozen, record.EffectPower, record.EffectNetwork, record.EffectIsolated, record.EffectPartitioned, record.EffectDisk}

// SilentLimit is how long an API server uses a connection that its etcd member does not answer
// (keepaliveTime and keepaliveTimeout in k8s.io/apiserver/pkg/storage/storagebackend/factory/etcd3.go).
// A connection whose member is back waits for TCP's next retransmission.
const SilentLimit = 40 * time.Second

// Silenced returns the nodes whose etcd member a fault may have silenced, if API servers of other
// nodes use it: they send it some of their requests until gRPC gives up its connections, which takes
// up to SilentLimit, or longer if it answers only its clients. The connections of a process that
// exits are closed.
func (m *Case) Silenced(inj *Injection) (nodes []string) {
	f := inj.Injected
	if f == nil || !f.Hits("etcd") || len(f.Effects) > 0 && !f.Has(silencing...) {
		return nil
	}
	return slices.DeleteFunc(inj.Nodes(), func(n string) bool { return !m.EtcdAlone(n) && !m.sharesEtcd(n) })
}

// SilentMembers returns the nodes whose etcd member may have been silent between two times, because of
// a fault or because the node was lost, if API servers of other nodes use it.
func (m *Case) SilentMembers(from, to record.Nanos) (nodes []string) {
	for _, inj := range m.Touching(from, to, record.Nanos(SilentLimit)) {
		nodes = append(nodes, m.Silenced(inj)...)
	}
	return append(nodes, m.lostMembers(from, to)...)
}

// lostMembers returns those that may have been silent because the node was lost.
func (m *Case) lostMembers(from, to record.Nanos) (nodes []string) {
	for at, c := range record.Each(m.Run.Nodes) {
		lost := c.Phase == record.NodeLost && c.Called <= to && from <= max(c.Effect, at)+record.Nanos(SilentLimit)
		if lost && (m.EtcdAlone(c.Node.Name) || m.sharesEtcd(c.Node.Name)) {
			nodes = append(nodes, c.Node.Name)
		}
	}
	return nodes
}

// sharesEtcd reports whether a node ever ran an etcd member that API servers of other nodes use.
func (m *Case) sharesEtcd(node string) bool {
	return m.Run.Meta.RemoteEtcd && slices.ContainsFunc(NodeLives(m.Run), func(n NodeLife) bool {
		return n.Name == node && slices.Contains(n.Components, "etcd")
	})
}
