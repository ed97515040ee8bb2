package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// impairment puts one impairment on some links of a target and proves it. All network faults use
// it.
type impairment struct {
	cluster framework.Cluster
	target  Target
	fault   string
	network framework.NetworkFaulter
	asked   framework.Impairment
	links   []framework.Link
	ttl     time.Duration
	// ends are the parties that the fault hits. They must be alive: packets to a dead one would
	// be counted all the same.
	ends []party
	// shows reports what the impairment's own counters show of its effect.
	shows shows
	// probed are the links, by their place, along which packets were sent, and mute those
	// along which none can be.
	probed, mute map[int]bool
}

// party is a host on the network that a fault hits.
type party struct {
	name string
	// components take part in the traffic that is impaired.
	components []framework.Component
	// power and reporter report whether the party is alive; they may be nil.
	power    framework.PowerSwitch
	reporter framework.ProcessReporter
}

// impairment returns an impairment that hits these parties. The caller sets its effect and links.
func (r Request) impairment(ends []party) (*impairment, error) {
	network, err := onCluster[framework.NetworkFaulter](r)
	if err != nil {
		return nil, err
	}
	for _, e := range ends {
		if !slices.Contains(network.Parties(), e.name) {
			return nil, fmt.Errorf("%s is not on the provider's network, whose hosts are %s", e.name, listed(network.Parties()))
		}
	}
	x := &impairment{cluster: r.Cluster, target: r.Target, fault: r.Fault.Name, network: network, ttl: r.TTL, ends: ends,
		probed: map[int]bool{}, mute: map[int]bool{}}
	return x, nil
}

// nodeParty returns a node as a party of which some components matter.
func (r Request) nodeParty(n framework.Node, components []framework.Component) (party, error) {
	p := party{name: n.Name(), components: components}
	p.power, _ = n.(framework.PowerSwitch)
	p.reporter, _ = n.(framework.ProcessReporter)
	if p.power == nil && p.reporter == nil {
		return p, r.missing("PowerSwitch or ProcessReporter", "node "+n.Name(), "")
	}
	return p, nil
}

// nodeParties returns whole nodes as parties.
func (r Request) nodeParties(nodes []framework.Node) ([]party, error) {
	var all []party
	for _, n := range nodes {
		p, err := r.nodeParty(n, n.Components())
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// cut is impairment for a fault that drops every packet. The caller sets its links.
func (r Request) cut(ends []party) (*impairment, error) {
	x, err := r.impairment(ends)
	if err != nil {
		return nil, err
	}
	x.asked, x.shows = framework.Impairment{Cut: true}, drops
	return x, nil
}

// trafficLimit is how long an injection waits for the first packet that it impairs: longer than
// the silent periods of the simulated nodes.
const trafficLimit = 15 * time.Second

// reconnectLimit is how long healing waits until the target serves again: TCP's retransmission may
// wait for as long again as the links were cut.
const reconnectLimit = 85 * time.Second

func (x *impairment) inject(ctx context.Context) (Injection, error) {
	if dead, err := x.dead(ctx); err != nil {
		return nil, fmt.Errorf("%s of %s: failed to ask whether it is alive before the fault: %w", x.fault, x.target.String(), err)
	} else if dead != "" {
		return notInjected(x.target, "%s, so impairing its links would change nothing", dead), nil
	}
	var handle string
	ask := func(ctx context.Context) (err error) {
		handle, err = x.network.Impair(ctx, x.links, x.asked, x.ttl)
		return x.unsupported(err)
	}
	reach := x.reach()
	stop := x.knock(ctx)
	i, err := attempt{
		target:   x.target,
		what:     x.fault + " of " + x.target.String(),
		ask:      ask,
		effect:   func(ctx context.Context) (bool, string) { return x.acts(ctx, handle) },
		patience: trafficLimit + longestDelay(x.asked.Delay, x.asked.Jitter), // a delayed packet shows when it leaves
		settles:  reconnectLimit,
		undo:     ifGiven(&handle, x.network.Restore),
		healed:   func(ctx context.Context) (bool, string) { return x.passes(ctx, handle, reach) },
	}.inject(ctx)
	stop()
	if err != nil {
		return nil, err
	}
	heal := i.undo
	i.undo = func(ctx context.Context) (Proof, error) {
		proof, err := heal(ctx)
		if err == nil && proof.Proven && i.proof.Proven {
			if refuted := x.refuted(ctx, handle); refuted != "" {
				i.refuted.Store(true)
				i.revoke("while it was active " + refuted)
			}
		}
		return proof, err
	}
	// A node that died in the meantime was not impaired but dead.
	if dead, err := x.dead(ctx); err != nil && i.proof.Proven {
		i.proof.Proven, i.proof.What = false, fmt.Sprintf("%s, but it is unknown whether the target is alive: %v", i.proof.What, err)
	} else if dead != "" {
		i.proof.Proven, i.proof.What = false, fmt.Sprintf("%s, but %s", i.proof.What, dead)
	}
	return i, nil
}

// unsupported is for an error that says that the network cannot do this.
func (x *impairment) unsupported(err error) error {
	return unsupported(err, "NetworkFaulter", "cluster "+x.cluster.Name(), "fault "+x.fault)
}

// knock sends packets from the harness along the links where only the harness may send, until
// stop is called. Impairments of established connections need one that exists before they start.
func (x *impairment) knock(ctx context.Context) (stop func()) {
	knockers := x.knockers()
	if x.asked.Established {
		var opening sync.WaitGroup
		for _, k := range knockers {
			opening.Go(func() {
				await(ctx, tryLimit, func(ctx context.Context) (bool, string) { return k.knock(ctx), "" })
			})
		}
		opening.Wait()
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, k := range knockers {
		all.Go(func() {
			defer k.close()
			for ctx.Err() == nil {
				k.knock(ctx)
				client.Pause(ctx, knockPause)
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// dead describes an end that takes no part in any traffic; empty means that all are alive, as far
// as the provider reports.
func (x *impairment) dead(ctx context.Context) (string, error) {
	for _, e := range x.ends {
		if dead, err := e.dead(ctx); dead != "" || err != nil {
			return dead, err
		}
	}
	return "", nil
}

func (e party) dead(ctx context.Context) (string, error) {
	if e.power != nil {
		on, err := e.power.Powered(ctx)
		if err != nil {
			return "", err
		}
		if !on {
			return fmt.Sprintf("node %s is powered off", e.name), nil
		}
	}
	if e.reporter == nil {
		return "", nil
	}
	for _, c := range e.components {
		now, err := e.reporter.Process(ctx, c)
		if err != nil {
			return "", err
		}
		if !now.Ended() {
			return "", nil
		}
	}
	return fmt.Sprintf("%s does not run a process of %v", e.name, e.components), nil
}

// acts checks whether the impairment does to packets what it should.
func (x *impairment) acts(ctx context.Context, handle string) (bool, string) {
	links, err := x.counters(ctx, handle)
	if err != nil {
		return false, err.Error()
	}
	f := x.shows(x.asked, links)
	seen := fmt.Sprintf("%s on the %d links of %s, out of %d that arrived", f.seen, len(x.links), x.target.String(), total(links).Matched)
	silent := x.unexercised(links)
	by := bypassed(links)
	held := f.shown && f.refuted == "" && silent == "" && by == ""
	for _, gap := range []string{by, f.refuted, silent} {
		if gap != "" {
			seen += "; " + gap
		}
	}
	if !held {
		x.probe(ctx, links, f.wants)
	}
	return held, seen
}

// refuted returns what in the impairment's final counters, after healing, contradicts the effect.
func (x *impairment) refuted(ctx context.Context, handle string) string {
	links, err := x.counters(ctx, handle)
	if err != nil {
		return err.Error()
	}
	return cmp.Or(bypassed(links), x.shows(x.asked, links).refuted)
}

// bypassed says that packets passed by the impairment uncounted; empty if they did not.
func bypassed(links []counted) string {
	if total(links).Bypassed == 0 {
		return ""
	}
	return "another program removed the rules of the impairment from a node"
}

// counters reads the impairment's counters of each link.
func (x *impairment) counters(ctx context.Context, handle string) ([]counted, error) {
	n, err := x.network.ImpairmentCounters(ctx, handle)
	if err == nil && len(n) != len(x.links) {
		err = fmt.Errorf("it has counters of %d links, not of %d", len(n), len(x.links))
	}
	if err != nil {
		return nil, fmt.Errorf("the counters of the impairment cannot be read: %w", err)
	}
	links := make([]counted, len(n))
	for i, c := range n {
		links[i] = counted{x.links[i], c}
	}
	return links, nil
}

// quiet is how far apart two readings of a counter must be at least to show
// that it no longer rises.
const quiet = 20 * time.Millisecond

// passes checks whether packets pass again: while a client exchanges packets with the ends, the
// counters of the impairment stay the same, and no link has the impairment any more, if the
// provider reports them. If other impairments are in the way, packets that arrive and are not
// counted must do; if an end is dead, the links alone.
func (x *impairment) passes(ctx context.Context, handle string, reach look) (bool, string) {
	counters, err := x.counters(ctx, handle)
	if err != nil {
		return false, err.Error()
	}
	before := total(counters)
	linksBefore, reports, err := x.linkStates(ctx)
	if err != nil {
		return false, fmt.Sprintf("the state of the links cannot be read: %v", err)
	}
	began := time.Now()
	held, exchanged := reach(ctx)
	if !held && !reports {
		return false, exchanged
	}
	if !client.Pause(ctx, quiet-time.Since(began)) {
		return false, "there was no time left to see whether packets are still impaired; " + exchanged
	}
	if counters, err = x.counters(ctx, handle); err != nil {
		return false, err.Error()
	}
	after := total(counters)
	switch {
	case after.Dropped != before.Dropped:
		return false, fmt.Sprintf("packets are still dropped on the links of %s: %d, then %d", x.target.String(), before.Dropped, after.Dropped)
	case after != before:
		return false, fmt.Sprintf("packets are still impaired on the links of %s: %d, then %d", x.target.String(), before.Matched, after.Matched)
	}
	links, _, err := x.linkStates(ctx)
	switch {
	case err != nil:
		return false, fmt.Sprintf("the state of the links cannot be read: %v", err)
	case slices.Contains(links.impairments, handle):
		return false, fmt.Sprintf("impairment %s is still on the links of %s", handle, x.target.String())
	case held:
	case len(links.impairments) == 0 || links.packets == linksBefore.packets:
		dead, err := x.dead(ctx)
		if err != nil || dead == "" {
			return false, exchanged
		}
		exchanged = fmt.Sprintf("%s, so that nothing passes, but none of the links has the impairment on it any more", dead)
	default:
		exchanged = fmt.Sprintf("%d packets arrived on its links, which now have the impairments %s", links.packets-linksBefore.packets, listed(links.impairments))
	}
	return true, fmt.Sprintf("%s; since healing none was impaired (%d before)", exchanged, after.Matched)
}

// linkStates is what the provider reports about all links of an impairment.
type linkStates struct {
	packets     uint64 // delivered and dropped
	impairments []string
}

// linkStates reads the state of the links; ok is false if the provider does not report it.
func (x *impairment) linkStates(ctx context.Context) (all linkStates, ok bool, err error) {
	reporter, ok := x.cluster.(framework.LinkReporter)
	if !ok {
		return all, false, nil
	}
	for _, l := range x.links {
		state, err := reporter.LinkState(ctx, l.From, l.To)
		if err != nil {
			return all, true, err
		}
		all.packets += state.Delivered + state.Dropped
		all.impairments = append(all.impairments, state.Impairments...)
	}
	slices.Sort(all.impairments)
	all.impairments = slices.Compact(all.impairments)
	return all, true, nil
}

// check refuses an impairment without links, one that no packet outlives, and one whose healing
// could not be proven.
func (x *impairment) check() error {
	if len(x.links) == 0 {
		return errors.New("no link exists between the target and its peers")
	}
	if x.asked.Delay >= x.ttl {
		return fmt.Errorf("packets are delayed by %s: it must be less than the time to live, %s", x.asked.Delay, x.ttl)
	}
	_, reports := x.cluster.(framework.LinkReporter)
	if !reports && slices.ContainsFunc(x.ends, func(e party) bool { return e.name == framework.WorkersHost }) {
		return &MissingAbility{Ability: "LinkReporter", Of: "cluster " + x.cluster.Name(), For: "fault " + x.fault + " on " + framework.WorkersHost}
	}
	return nil
}
