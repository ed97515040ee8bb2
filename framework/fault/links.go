package fault

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// portsParam narrows the impairment to ports.
var portsParam = Param{Name: "port", Doc: "what is impaired", Default: "the component's own port; all ports for any other target",
	Allowed: "all, or a list of etcd-peer, etcd-client, apiserver (where the nodes serve these, usually 2380, 2379 and 6443) and TCP or UDP port numbers from 1 to 65535, separated by commas",
	Parse:   func(v string) (any, bool) { return parsePorts(v) }}

// flapParam makes the impairment flap.
var flapParam = Param{Name: "flap", Doc: "ON/OFF, such as 1s/500ms: active for ON, inactive for OFF, and so on until healed; the provider keeps the schedule", Default: "always active",
	Allowed: fmt.Sprintf("two durations from %s to %s, such as 1s/500ms", brief(flapShortest), brief(flapLongest)),
	Parse:   func(v string) (any, bool) { return parseFlap(v) }}

// linkTargets are the kinds of target that have links of their own.
var linkTargets = []string{"node", "zone", "nodes", "etcd", "apiserver", "balancer", "kwok", "workers", "harness"}

// linkParams are the parameters that all faults on the links of a target take.
var linkParams = []Param{
	choiceParam("direction", "in is what the target receives, out what it sends", "both", "in", "out"),
	partiesParam("peer", "parties at the other end, separated by commas: names (node-2, balancer, workers, harness), node numbers (2), zones (zone/b)").unless("all others"),
	portsParam,
	flapParam,
}

// network completes a fault that is an impairment of links.
func network(f *Fault, impair func(Request) (*impairment, error)) *Fault {
	f.impair = func(r Request) (*impairment, error) {
		x, err := impair(r)
		if err != nil {
			return nil, err
		}
		phases := Value[flap](r, flapParam.Name)
		x.asked.FlapOn, x.asked.FlapOff = phases.on, phases.off
		return x, x.check()
	}
	f.Prepare = func(r Request) (Inject, error) {
		x, err := f.impair(r)
		if err != nil {
			return nil, err
		}
		return x.inject, nil
	}
	f.ask = func(ctx context.Context, r Request) error {
		x, err := f.impair(r)
		if err != nil {
			return err
		}
		checker, ok := r.Cluster.(framework.ImpairmentChecker)
		if !ok {
			return nil
		}
		return x.unsupported(checker.CheckImpairment(ctx, x.links, x.asked))
	}
	return f
}

// onLinks completes a fault that puts one impairment on the links of a target. shows reports what
// the counters show of its effect.
func onLinks(f *Fault, asked func(Request) framework.Impairment, shows shows) *Fault {
	f.Targets = linkTargets
	f.Params = slices.Concat(f.Params, linkParams)
	f.Needs = []string{"NetworkFaulter", "PowerSwitch or ProcessReporter (nodes)", "LinkReporter (workers)", "LinkProber (links without traffic of their own)"}
	if f.Effects == nil {
		f.Effects = does(record.EffectNetwork)
	}
	return network(f, func(r Request) (*impairment, error) {
		ends, ports, err := r.ends()
		if err != nil {
			return nil, err
		}
		x, err := r.impairment(ends)
		if err != nil {
			return nil, err
		}
		x.asked, x.shows = asked(r), shows
		if given := Value[portList](r, portsParam.Name); given.given {
			ports = given.on(r.Cluster)
		}
		own := framework.Names(ends, func(e party) string { return e.name })
		peers, err := r.peers(x, own)
		if err != nil {
			return nil, err
		}
		x.links = linksBetween(own, peers, Value[string](r, "direction"), ports)
		return x, nil
	})
}

// linksBetween returns the links from the first parties to the second ones
// ("out"), the other way round ("in"), or both.
func linksBetween(from, to []string, direction string, ports []uint16) []framework.Link {
	var links []framework.Link
	for _, f := range from {
		for _, t := range to {
			if direction != "in" {
				links = append(links, framework.Link{From: f, To: t, Ports: ports})
			}
			if direction != "out" {
				links = append(links, framework.Link{From: t, To: f, Ports: ports})
			}
		}
	}
	return links
}

// ends returns the parties of the target, and the ports of its component, if it is one.
func (r Request) ends() (ends []party, ports []uint16, err error) {
	t := r.Target
	switch {
	case t.Host != "":
		e := party{name: t.Host}
		if t.Component != "" {
			e.components = []framework.Component{t.Component}
			e.reporter, _ = r.Cluster.(framework.ProcessReporter)
		}
		return []party{e}, nil, nil
	case t.Component == "":
		nodes, err := r.nodes()
		if err != nil {
			return nil, nil, err
		}
		ends, err = r.nodeParties(nodes)
		return ends, nil, err
	}
	if _, _, err := r.holder(); err != nil {
		return nil, nil, err
	}
	n, err := r.node()
	if err != nil {
		return nil, nil, err
	}
	switch t.Component {
	case framework.Etcd: // which sends to the ports of its peers as well
		ports = slices.Concat(etcdPeer.on(r.Cluster.Nodes()...), etcdClient.on(r.Cluster.Nodes()...))
	case framework.APIServer:
		ports = apiServer.on(n)
	}
	e, err := r.nodeParty(n, []framework.Component{t.Component})
	return []party{e}, ports, err
}

// peers returns the parties at the other end of a target's links.
func (r Request) peers(x *impairment, own []string) ([]string, error) {
	others := slices.DeleteFunc(slices.Clone(x.network.Parties()), func(party string) bool { return slices.Contains(own, party) })
	if r.Values["peer"] == "" {
		return others, nil
	}
	var peers []string
	for word := range strings.SplitSeq(r.Values["peer"], ",") {
		named := partiesNamed(x.cluster, x.network.Parties(), strings.TrimSpace(word))
		for _, name := range named {
			if !slices.Contains(others, name) {
				named = nil
			}
		}
		if len(named) == 0 {
			return nil, r.bad("peer", "a list of %s, or a node's number, or a zone that the target is not in; %q is not one of them", listed(others), word)
		}
		peers = append(peers, named...)
	}
	slices.Sort(peers)
	return slices.Compact(peers), nil
}

// partiesNamed returns the parties that a word denotes: a party's name, the number of a node in
// the order of joining, or a target that needs no resolving (node/2, zone/b). It returns none for
// an unknown word.
func partiesNamed(c framework.Cluster, parties []string, word string) []string {
	if slices.Contains(parties, word) {
		return []string{word}
	}
	if zone, ok := strings.CutPrefix(word, zonePrefix); ok {
		names, err := nodesOfZone(c, zone)
		if err != nil {
			return nil
		}
		return names
	}
	nodes := framework.NodeNames(c.Nodes())
	which := strings.TrimPrefix(word, "node/")
	if n, err := strconv.Atoi(which); err == nil && n >= 1 && n <= len(nodes) {
		return nodes[n-1 : n]
	}
	if slices.Contains(nodes, which) {
		return []string{which}
	}
	return nil
}

// Limits of one phase of a fault that flaps.
const (
	flapShortest = 10 * time.Millisecond
	flapLongest  = time.Hour
)

// flap are the phases of a fault that flaps; 0 for one that does not.
type flap struct{ on, off time.Duration }

func parseFlap(v string) (f flap, ok bool) {
	if v == "" {
		return f, true
	}
	first, second, _ := strings.Cut(v, "/")
	var onErr, offErr error
	f.on, onErr = time.ParseDuration(first)
	f.off, offErr = time.ParseDuration(second)
	return f, onErr == nil && offErr == nil && min(f.on, f.off) >= flapShortest && max(f.on, f.off) <= flapLongest
}
