package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"

	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// ProbeLink implements framework.LinkProber. Packets go to the receiver's own address, not to
// those of its pods.
func (n *Network) ProbeLink(ctx context.Context, l framework.Link, packets int) error {
	sender, receiver, err := n.ends(l.From, l.To)
	if err != nil {
		return err
	}
	own := slices.IndexFunc(receiver.Prefixes, netip.Prefix.IsSingleIP)
	if own < 0 {
		return fmt.Errorf("%s of cluster %s has no address of its own", l.To, n.cluster)
	}
	to := system.ProbeTarget(receiver.Prefixes[own].Addr(), l)
	switch {
	case len(sender.Agents) > 0:
		return framework.Each(sender.Agents, func(c *Client) error { return c.SendProbes(ctx, to, packets) })
	case l.From == framework.HarnessHost:
		return system.SendProbes(to, packets)
	}
	return fmt.Errorf("%s of cluster %s has no agent that could send packets", l.From, n.cluster)
}

// LinkState implements framework.LinkReporter. It returns what the receiver has seen, or the
// sender if the receiver cannot report it.
func (n *Network) LinkState(ctx context.Context, from, to string) (framework.LinkState, error) {
	sender, receiver, err := n.ends(from, to)
	if err != nil {
		return framework.LinkState{}, err
	}
	ask := func(agents []*Client, p Path) (sum framework.LinkState, err error) {
		var mu sync.Mutex
		err = framework.Each(agents, func(c *Client) error {
			var told framework.LinkState
			err := c.do(ctx, networkLimit, http.MethodPost, "link", "query the state of a link", &request{Paths: []Path{p}}, &told)
			mu.Lock()
			defer mu.Unlock()
			sum.Delivered, sum.Dropped = sum.Delivered+told.Delivered, sum.Dropped+told.Dropped
			sum.Impairments = append(sum.Impairments, told.Impairments...)
			return err
		})
		return sum, err
	}
	sent, sentErr := ask(sender.Agents, Path{Peer: to, Out: true})
	received, receivedErr := ask(receiver.Agents, Path{Peer: from})
	state := received
	switch {
	case len(sender.Agents)+len(receiver.Agents) == 0:
		return state, fmt.Errorf("the state of the link from %s to %s of cluster %s is not known: neither end has a node agent", from, to, n.cluster)
	case len(receiver.Agents) == 0 || receivedErr != nil:
		if len(sender.Agents) == 0 || sentErr != nil {
			return state, errors.Join(sentErr, receivedErr)
		}
		state = sent
	default:
		state.Dropped += sent.Dropped
		state.Impairments = append(state.Impairments, sent.Impairments...)
	}
	slices.Sort(state.Impairments)
	state.Impairments = slices.Compact(state.Impairments)
	return state, nil
}
