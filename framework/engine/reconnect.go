package engine

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// reconnect waits until no connection between control-plane nodes waits for TCP to send
// again, until the given time at most. What comes next would meet what a network cut has
// left behind: etcd members give their connections no time-out of their own (their dialer's
// is lost on http.Transport.DialContext), so that two followers may not hear from each
// other for about as long again as they were cut off, though both are well; where the next
// fault takes their leader, they elect no other until then.
func (r *run) reconnect(ctx context.Context, until time.Time) {
	began := time.Now()
	left := r.disconnected(ctx)
	if len(left) == 0 {
		return
	}
	r.say("waiting until TCP sends again: %s", listed(left))
	for len(left) > 0 && time.Now().Before(until) && client.Pause(ctx, conditionPause) {
		left = r.disconnected(ctx)
	}
	waited := time.Since(began).Round(10 * time.Millisecond)
	if len(left) > 0 {
		r.say("after %s TCP has still not sent again: %s", waited, listed(left))
		return
	}
	r.say("all nodes are connected again after %s more", waited)
}

// disconnected returns the connections between control-plane nodes that wait. A node that
// does not tell has none.
func (r *run) disconnected(ctx context.Context) (all []string) {
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
		for _, p := range peers {
			if name := names[p]; name != "" && name != n.Name() {
				all = append(all, fmt.Sprintf("%s to %s", n.Name(), name))
			}
		}
	}
	slices.Sort(all)
	return all
}
