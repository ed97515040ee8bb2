package engine

import (
	"context"
	"fmt"
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
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	names := map[netip.Addr]string{}
	for _, n := range r.cluster.Nodes() {
		names[n.Address()] = n.Name()
	}
	for _, n := range r.cluster.Nodes() {
		reporter, ok := n.(framework.ConnectionReporter)
		if !ok {
			continue
		}
		peers, err := reporter.Stalled(ctx)
		if err != nil {
			continue
		}
		told = true
		for _, p := range peers {
			if name := names[p]; name != "" && name != n.Name() {
				all = append(all, fmt.Sprintf("%s to %s", n.Name(), name))
			}
		}
	}
	slices.Sort(all)
	return all, told
}
