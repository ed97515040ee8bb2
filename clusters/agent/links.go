package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// Party is a host on a cluster's network, or several hosts under one name.
type Party struct {
	Name string
	// Prefixes are the addresses in its packets on the network: its own, and those of its pods.
	// The prefixes of two parties do not overlap.
	Prefixes []netip.Prefix
	// Agents are the agents of its nodes; empty if no agent runs, as on the harness's machine.
	Agents []*Client
}

// Network implements the framework's abilities on the network between parties. A link is
// impaired by the receiver's agents, or by the sender's if the receiver has none, they cannot
// be reached, or they do not support the impairment.
type Network struct {
	cluster string

	mu      sync.Mutex
	parties []Party                     // guarded by mu
	links   map[string][]framework.Link // of impairments, by handle; guarded by mu
	asked   map[string][]string         // the nodes whose agents were asked for them, by handle; guarded by mu
	last    map[string]links            // by handle and node, as last reported; guarded by mu
	until   map[string]time.Time        // when unrestored impairments end, by handle; guarded by mu
}

var (
	_ framework.NetworkFaulter    = (*Network)(nil)
	_ framework.LinkReporter      = (*Network)(nil)
	_ framework.LinkProber        = (*Network)(nil)
	_ framework.ImpairmentChecker = (*Network)(nil)
)

// NewNetwork returns the network between parties. Call Meet before the first impairment.
func NewNetwork(cluster string, parties []Party) *Network {
	return &Network{cluster: cluster, parties: parties, links: map[string][]framework.Link{}, asked: map[string][]string{}, last: map[string]links{}, until: map[string]time.Time{}}
}

// Replace replaces the parties. Agents know the new ones from the next Meet on.
func (n *Network) Replace(parties []Party) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.parties = parties
}

// All returns the parties.
func (n *Network) All() []Party {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.parties
}

// networkLimit is how long an agent may take to change a link, or to report on one, before it
// counts as unreachable.
const networkLimit = 5 * time.Second

// Meet sends every agent the list of its peers. Agents remember it, also after a restart of
// their node.
func (n *Network) Meet(ctx context.Context) error {
	return framework.Each(n.agents(), func(c *Client) error {
		var peers []Peer
		for _, p := range n.All() {
			if !slices.Contains(p.Agents, c) {
				peers = append(peers, Peer{Name: p.Name, Prefixes: p.Prefixes})
			}
		}
		return c.do(ctx, networkLimit, http.MethodPost, "peers", "set the peers", &request{Peers: peers}, nil)
	})
}

// CheckImpairment implements framework.ImpairmentChecker.
func (n *Network) CheckImpairment(ctx context.Context, links []framework.Link, imp framework.Impairment) error {
	_, err := n.plan(links, n.unfit(ctx, links, imp))
	return err
}

// Parties implements framework.NetworkFaulter.
func (n *Network) Parties() []string {
	return framework.Names(n.All(), func(p Party) string { return p.Name })
}

func (n *Network) agents() []*Client {
	var all []*Client
	for _, p := range n.All() {
		all = append(all, p.Agents...)
	}
	return all
}

func (n *Network) ends(from, to string) (sender, receiver Party, err error) {
	find := func(name string) (Party, bool) {
		all := n.All()
		i := slices.IndexFunc(all, func(p Party) bool { return p.Name == name })
		if i < 0 {
			return Party{}, false
		}
		return all[i], true
	}
	sender, ok := find(from)
	receiver, too := find(to)
	if !ok || !too || from == to {
		return sender, receiver, fmt.Errorf("cluster %s has no link from %q to %q; its hosts are %s", n.cluster, from, to, strings.Join(n.Parties(), ", "))
	}
	return sender, receiver, nil
}

// Impair implements framework.NetworkFaulter.
func (n *Network) Impair(ctx context.Context, links []framework.Link, imp framework.Impairment, ttl time.Duration) (string, error) {
	asked, err := n.plan(links, n.unfit(ctx, links, imp))
	if err != nil {
		return "", framework.Untouched{Err: err}
	}
	return n.impair(ctx, asked, links, imp, ttl)
}

// CutOff cuts all links of a party, first those from it. Its own agents do that: those of its
// peers may lose power at the same time.
func (n *Network) CutOff(ctx context.Context, name string, ttl time.Duration) error {
	for _, out := range []bool{true, false} {
		asked := map[*Client][]Path{}
		var links []framework.Link
		for _, peer := range n.Parties() {
			if peer == name {
				continue
			}
			own, _, err := n.ends(name, peer)
			if err != nil {
				return err
			}
			for _, c := range own.Agents {
				asked[c] = append(asked[c], Path{Peer: peer, Out: out})
			}
			link := framework.Link{From: name, To: peer}
			if !out {
				link = framework.Link{From: peer, To: name}
			}
			links = append(links, link)
		}
		if _, err := n.impair(ctx, asked, links, framework.Impairment{Cut: true}, ttl); err != nil {
			return err
		}
	}
	return nil
}

func (n *Network) impair(ctx context.Context, asked map[*Client][]Path, links []framework.Link, imp framework.Impairment, ttl time.Duration) (string, error) {
	handle := strings.ToLower(rand.Text()[:12])
	agents := slices.Collect(maps.Keys(asked))
	err := framework.Each(agents, func(c *Client) error {
		r := request{Handle: handle, Paths: asked[c], Impairment: imp, For: ttl}
		return c.do(ctx, networkLimit, http.MethodPost, "impair", "impair links", &r, nil)
	})
	n.mu.Lock()
	n.until[handle], n.links[handle] = time.Now().Add(ttl), slices.Clone(links)
	for _, c := range agents {
		n.asked[handle] = append(n.asked[handle], c.node)
	}
	n.mu.Unlock()
	if err != nil {
		// Some agents may have applied it. Those that cannot be reached end it in time.
		undoing, cancel := context.WithTimeout(context.WithoutCancel(ctx), networkLimit)
		defer cancel()
		if n.Restore(undoing, handle) == nil {
			err = framework.Untouched{Err: err}
		}
		return "", err
	}
	return handle, nil
}

// unfit returns the agents on links that cannot put an impairment on any of theirs, and why:
// for example agents of nodes without power, which do not answer.
func (n *Network) unfit(ctx context.Context, links []framework.Link, imp framework.Impairment) map[*Client]error {
	var on []*Client
	for _, p := range n.All() {
		if slices.ContainsFunc(links, func(l framework.Link) bool { return l.From == p.Name || l.To == p.Name }) {
			on = append(on, p.Agents...)
		}
	}
	errs := framework.Map(on, func(c *Client) error {
		return c.do(ctx, networkLimit, http.MethodPost, "impairment-support", "ask which impairments its links support", &request{Impairment: imp}, nil)
	})
	unfit := map[*Client]error{}
	for i, c := range on {
		if errs[i] != nil {
			unfit[c] = errs[i]
		}
	}
	return unfit
}

// plan decides which agent impairs which paths.
func (n *Network) plan(links []framework.Link, unfit map[*Client]error) (map[*Client][]Path, error) {
	if len(links) == 0 {
		return nil, errors.New("the impairment names no link")
	}
	asked := map[*Client][]Path{}
	for _, l := range links {
		sender, receiver, err := n.ends(l.From, l.To)
		if err != nil {
			return nil, err
		}
		fit := func(p Party) bool {
			return len(p.Agents) > 0 && !slices.ContainsFunc(p.Agents, func(c *Client) bool { return unfit[c] != nil })
		}
		switch {
		case fit(receiver):
			for _, c := range receiver.Agents {
				asked[c] = append(asked[c], Path{Peer: l.From, Ports: l.Ports})
			}
		case fit(sender):
			for _, c := range sender.Agents {
				asked[c] = append(asked[c], Path{Peer: l.To, Out: true, Ports: l.Ports})
			}
		default:
			err := fmt.Errorf("the link from %s to %s of cluster %s cannot be impaired: neither end has a node agent that can", l.From, l.To, n.cluster)
			return nil, becauseOf(err, slices.Concat(receiver.Agents, sender.Agents), unfit)
		}
	}
	return asked, nil
}

// becauseOf adds to an error why these agents cannot do what was requested. The result is
// errors.ErrUnsupported if none of them ever can.
func becauseOf(err error, agents []*Client, unfit map[*Client]error) error {
	var reasons []error
	for _, c := range agents {
		if why := unfit[c]; why != nil {
			if !errors.Is(why, errors.ErrUnsupported) {
				return fmt.Errorf("%w: %w", err, why)
			}
			reasons = append(reasons, why)
		}
	}
	if len(reasons) == 0 {
		return err
	}
	return fmt.Errorf("%w: %w", err, errors.Join(reasons...))
}

// holders returns the agents that may have an impairment: those that were asked for it, or all if
// that is not known.
func (n *Network) holders(handle string) []*Client {
	all := n.agents()
	n.mu.Lock()
	defer n.mu.Unlock()
	asked, known := n.asked[handle]
	return slices.DeleteFunc(all, func(c *Client) bool { return known && !slices.Contains(asked, c.node) })
}

// Restore implements framework.NetworkFaulter. An agent that was asked for the impairment and does
// not answer is an error: it may still be active there.
func (n *Network) Restore(ctx context.Context, handle string) error {
	err := framework.Each(n.holders(handle), func(c *Client) error {
		return c.do(ctx, networkLimit, http.MethodPost, "restore", "restore links", &request{Handle: handle}, nil)
	})
	if err == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.until, handle)
	}
	return err
}

// Active reports how many impairments were started here and have neither been restored on all
// nodes nor expired. It sends no requests.
func (n *Network) Active() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.until, func(_ string, until time.Time) bool { return !time.Now().Before(until) })
	return len(n.until)
}

// ImpairmentCounters implements framework.NetworkFaulter. For an agent that does not answer, as
// on a node without power, its last reported counters are used.
func (n *Network) ImpairmentCounters(ctx context.Context, handle string) ([]framework.LinkCounters, error) {
	n.mu.Lock()
	asked := n.links[handle]
	n.mu.Unlock()
	told := map[*Client]links{}
	err := framework.Each(n.holders(handle), func(c *Client) error {
		var now links
		err := c.do(ctx, networkLimit, http.MethodPost, "counters", "read the counters of links", &request{Handle: handle}, &now)
		n.mu.Lock()
		defer n.mu.Unlock()
		key := handle + " " + c.node
		switch {
		case err != nil:
			now = n.last[key]
		case now != nil:
			n.last[key] = now
		}
		if now != nil {
			told[c] = now
		}
		return err
	})
	switch {
	case len(told) == 0 && err != nil:
		return nil, err
	case len(told) == 0 || len(asked) == 0:
		return nil, fmt.Errorf("cluster %s has had no impairment %s recently", n.cluster, handle)
	}
	all := make([]framework.LinkCounters, len(asked))
	for i, l := range asked {
		sender, receiver, err := n.ends(l.From, l.To)
		if err != nil {
			return nil, err
		}
		for _, c := range receiver.Agents {
			all[i] = all[i].Add(told[c][linkName(l.From, false)])
		}
		for _, c := range sender.Agents {
			all[i] = all[i].Add(told[c][linkName(l.To, true)])
		}
	}
	for _, links := range told {
		all[0] = all[0].Add(links[""])
	}
	return all, nil
}
