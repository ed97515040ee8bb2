package engine

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// reconnect follows the connections between control-plane nodes from a healing on, in parallel
// with the steady-state check. The function that it returns waits until the check is over, no
// connection waits for a TCP retransmission and each etcd member is connected to those that it was
// connected to before, until at most longestRecovery after the given time, and records how long that
// took.
//
// Otherwise the next step would meet the aftermath of a network cut: etcd's peer connections have
// no TCP timeout of their own (the dialer's is lost on http.Transport.DialContext), so two
// healthy followers may stay disconnected for about as long again as the cut lasted; if the next
// fault hits their leader, they cannot elect another until then.
func (r *run) reconnect(ctx context.Context, from time.Time) (settled func() error) {
	steady := make(chan struct{})
	outcome := make(chan record.Steady, 1)
	go func() { outcome <- r.followConnections(ctx, from, steady) }()
	return func() error {
		if left, _ := r.disconnected(r.connections(ctx)); len(left) > 0 {
			r.say("waiting for connections: %s", listed(left))
		}
		close(steady)
		s := <-outcome
		if !s.OK {
			r.reporters, r.peerings = nil, nil // what is lost for good is not waited for again
		}
		switch {
		case s.Phase == "" || ctx.Err() != nil:
			return nil
		case s.OK:
		case s.Problems == nil:
			r.say("not every node reports its connections any more")
			return nil
		default:
			r.say("connections were not back %s after the healing: %s", s.Took.Round(10*time.Millisecond), listed(s.Problems))
		}
		return r.w.Append(record.KindSteady, s)
	}
}

// followConnections reports how long after a healing the last connection was back; the zero value if
// no node reports them. It checks at least once after the rest is steady: a healing in progress may
// lose another connection. Without problems, the state at the end is not known.
func (r *run) followConnections(ctx context.Context, from time.Time, steady <-chan struct{}) record.Steady {
	s := record.Steady{Phase: record.SteadyPart, Part: record.PartConnections, Limit: longestRecovery, Since: r.w.Since(from), First: r.w.Now()}
	for last := false; ; {
		select {
		case <-steady:
			last = true
		default:
		}
		took := time.Since(from)
		seen := r.connections(ctx)
		if len(seen.by) == 0 && len(r.reporters) == 0 {
			return record.Steady{}
		}
		left, known := r.disconnected(seen)
		switch {
		case len(left) > 0:
			s.OK, s.Took, s.Problems = false, took, left
		case known && !s.OK:
			s.OK, s.Took, s.Problems = true, took, nil
		case !known && !s.OK:
			s.First = r.w.Now()
		}
		over := took >= s.Limit
		if last && (known && s.OK || over) || !client.Pause(ctx, conditionPause) {
			if !known && len(left) == 0 {
				s.OK, s.Problems = false, nil
			}
			return s
		}
	}
}

// lookConnected notes, while nothing is broken, which nodes report their connections and which etcd
// members are connected: only what once was can be missing later.
func (r *run) lookConnected(ctx context.Context) {
	if len(r.unhealed()) > 0 {
		return
	}
	if r.reporters == nil {
		r.reporters, r.peerings = map[string]bool{}, map[peering]bool{}
	}
	seen := r.connections(ctx)
	for name := range seen.by {
		r.reporters[name] = true
	}
	maps.Copy(r.peerings, seen.peerings())
}

// disconnected returns the connections between control-plane nodes that wait for a
// retransmission, and those of etcd members that are missing, as far as nodes report them; and
// whether all nodes do that ever did.
func (r *run) disconnected(seen connections) (left []string, known bool) {
	for _, c := range seen.all {
		if c.Stalled {
			left = append(left, c.ends())
		}
	}
	now := seen.peerings()
	for p := range r.peerings {
		if _, there := seen.ports[p.to]; there && seen.by[p.from].IsValid() && !now[p] {
			left = append(left, fmt.Sprintf("%s to %s (not connected)", p.from, p.to))
		}
	}
	known = true
	for name := range r.reporters {
		if _, there := seen.ports[name]; there && !seen.by[name].IsValid() {
			known = false
		}
	}
	slices.Sort(left)
	return slices.Compact(left), known
}

// halfOpen returns an error for connections between control-plane nodes of which only one end is
// left. After a power cut the other nodes keep theirs until TCP's keep-alive finds out (30 s in
// etcd's dialer, client/pkg/transport); until then the node's etcd member sends over HTTP requests,
// each a round trip of its own, instead of a stream.
func (r *run) halfOpen(ctx context.Context) error {
	seen := r.connections(ctx)
	by := slices.Collect(maps.Values(seen.by))
	has := map[[2]netip.AddrPort]bool{}
	for _, c := range seen.all {
		has[[2]netip.AddrPort{c.Local, c.Peer}] = true
	}
	var left []string
	for _, c := range seen.all {
		if c.Established && slices.Contains(by, c.Peer.Addr()) && !has[[2]netip.AddrPort{c.Peer, c.Local}] {
			left = append(left, c.ends())
		}
	}
	if len(left) > 0 {
		slices.Sort(left)
		return fmt.Errorf("half-open connections: %s", listed(slices.Compact(left)))
	}
	return nil
}

// peering is the connection of an etcd member to another, by the names of their nodes.
type peering struct{ from, to string }

// nodeConnection is a connection of a control-plane node to another, by their names.
type nodeConnection struct {
	framework.Connection
	peering
}

func (c nodeConnection) ends() string { return c.from + " to " + c.to }

// connections are what nodes report of their connections to one another.
type connections struct {
	all   []nodeConnection
	by    map[string]netip.Addr // the nodes that report them, by name
	ports map[string]uint16     // of etcd's peers on each node
}

// peerings returns the connections that etcd members opened to one another.
func (c connections) peerings() map[peering]bool {
	all := map[peering]bool{}
	for _, conn := range c.all {
		if conn.Established && conn.Peer.Port() == c.ports[conn.to] {
			all[conn.peering] = true
		}
	}
	return all
}

func (r *run) connections(ctx context.Context) connections {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	names, ports := map[netip.Addr]string{}, map[string]uint16{}
	for _, n := range r.cluster.Nodes() {
		names[n.Address()], ports[n.Name()] = n.Name(), fault.EtcdPeerPort(n)
	}
	peers := slices.Collect(maps.Keys(names))
	seen := connections{by: map[string]netip.Addr{}, ports: ports}
	var mu sync.Mutex
	_ = framework.Each(r.cluster.Nodes(), func(n framework.Node) error {
		reporter, ok := n.(framework.ConnectionReporter)
		if !ok {
			return nil
		}
		found, err := reporter.Connections(ctx, peers)
		if err != nil {
			return nil // it is missing among those that report
		}
		mu.Lock()
		defer mu.Unlock()
		seen.by[n.Name()] = n.Address()
		for _, c := range found {
			if name := names[c.Peer.Addr()]; name != n.Name() {
				seen.all = append(seen.all, nodeConnection{c, peering{n.Name(), name}})
			}
		}
		return nil
	})
	return seen
}
