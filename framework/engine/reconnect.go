package engine

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// reconnect follows the connections between control-plane nodes from a healing on, in parallel
// with the steady-state check. The function that it returns waits until the check is over and no
// connection waits for a TCP retransmission, until at most longestRecovery after the given time,
// and records how long that took.
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
		if left, _ := r.disconnected(ctx); len(left) > 0 {
			r.say("waiting until TCP retransmits: %s", listed(left))
		}
		close(steady)
		s := <-outcome
		if s.Phase == "" || ctx.Err() != nil {
			return nil
		}
		if !s.OK {
			r.say("TCP has still not retransmitted %s after the healing: %s", s.Took.Round(10*time.Millisecond), listed(s.Problems))
		}
		return r.w.Append(record.KindSteady, s)
	}
}

// followConnections reports how long after a healing the last connection retransmitted; the zero
// value if no node reports it. It checks at least once after the rest is steady: a healing in
// progress may lose another connection.
func (r *run) followConnections(ctx context.Context, from time.Time, steady <-chan struct{}) record.Steady {
	s := record.Steady{Phase: record.SteadyPart, Part: record.PartConnections, Limit: longestRecovery}
	for last := false; ; {
		select {
		case <-steady:
			last = true
		default:
		}
		took := time.Since(from)
		left, told := r.disconnected(ctx)
		if !told && s.Took == 0 {
			return record.Steady{}
		}
		if !s.OK || len(left) > 0 {
			s.OK, s.Took, s.Problems = len(left) == 0, took, left
		}
		if last && (s.OK || took >= s.Limit) || !client.Pause(ctx, conditionPause) {
			return s
		}
	}
}

// disconnected returns the connections between control-plane nodes that wait for a
// retransmission, and whether any node reports them. A node that does not report has none.
func (r *run) disconnected(ctx context.Context) (all []string, told bool) {
	seen, by := r.connections(ctx)
	for _, c := range seen {
		if c.Stalled {
			all = append(all, c.ends)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), len(by) > 0
}

// halfOpen returns an error for connections between control-plane nodes of which only one end is
// left. After a power cut the other nodes keep theirs until TCP's keep-alive finds out (30 s in
// etcd's dialer, client/pkg/transport); until then the node's etcd member sends over HTTP requests,
// each a round trip of its own, instead of a stream.
func (r *run) halfOpen(ctx context.Context) error {
	all, by := r.connections(ctx)
	has := map[[2]netip.AddrPort]bool{}
	for _, c := range all {
		has[[2]netip.AddrPort{c.Local, c.Peer}] = true
	}
	var left []string
	for _, c := range all {
		if c.Established && slices.Contains(by, c.Peer.Addr()) && !has[[2]netip.AddrPort{c.Peer, c.Local}] {
			left = append(left, c.ends)
		}
	}
	if len(left) > 0 {
		slices.Sort(left)
		return fmt.Errorf("half-open connections: %s", listed(slices.Compact(left)))
	}
	return nil
}

// nodeConnection is a connection of a control-plane node to another, as "node-1 to node-2".
type nodeConnection struct {
	framework.Connection
	ends string
}

// connections returns those of the nodes that report them, and the addresses of these nodes.
func (r *run) connections(ctx context.Context) (all []nodeConnection, by []netip.Addr) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	names := map[netip.Addr]string{}
	for _, n := range r.cluster.Nodes() {
		names[n.Address()] = n.Name()
	}
	peers := slices.Collect(maps.Keys(names))
	for _, n := range r.cluster.Nodes() {
		reporter, ok := n.(framework.ConnectionReporter)
		if !ok {
			continue
		}
		found, err := reporter.Connections(ctx, peers)
		if err != nil {
			continue
		}
		by = append(by, n.Address())
		for _, c := range found {
			if name := names[c.Peer.Addr()]; name != n.Name() {
				all = append(all, nodeConnection{c, fmt.Sprintf("%s to %s", n.Name(), name)})
			}
		}
	}
	return all, by
}
