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

// reconnect waits until no connection between control-plane nodes waits for TCP to send
// again, for longestRecovery after the given time at most, and records how long that took.
// What comes next would meet what a network cut has left behind: etcd members give their
// connections no time-out of their own (their dialer's is lost on
// http.Transport.DialContext), so that two followers may not hear from each other for about
// as long again as they were cut off, though both are well; where the next fault takes
// their leader, they elect no other until then.
func (r *run) reconnect(ctx context.Context, from time.Time) error {
	s := record.Steady{Phase: record.SteadyPart, Part: record.PartConnections, Limit: longestRecovery}
	left, told := r.disconnected(ctx)
	if !told {
		return nil
	}
	if len(left) > 0 {
		r.say("waiting until TCP sends again: %s", listed(left))
	}
	for len(left) > 0 && time.Since(from) < s.Limit && client.Pause(ctx, conditionPause) {
		left, _ = r.disconnected(ctx)
	}
	if ctx.Err() != nil {
		return nil
	}
	s.OK, s.Took, s.Problems = len(left) == 0, time.Since(from), left
	if !s.OK {
		r.say("%s after the healing TCP has still not sent again: %s", s.Took.Round(10*time.Millisecond), listed(left))
	}
	return r.w.Append(record.KindSteady, s)
}

// disconnected returns the connections between control-plane nodes that wait, and whether
// any node tells. One that does not has none.
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
