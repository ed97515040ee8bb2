package fault

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// Ports of the control plane's protocols.
const (
	etcdClientPort = 2379
	etcdPeerPort   = 2380
	apiServerPort  = 6443
)

// Parameters that faults of the network share.
const (
	portDoc = "all, or what is impaired, separated by commas: etcd-peer (2380), etcd-client (2379), apiserver (6443), or a TCP or UDP port from 1 to 65535; default that of a component, all of any other target"
	flapDoc = "ON/OFF, such as 1s/500ms: in force for ON, out of force for OFF, and so on until healed, the provider keeping time; each from 10ms to 1h; default always in force"
)

// linkTargets are the kinds of target that have links of their own.
func linkTargets() []string {
	return []string{"node", "zone", "etcd", "apiserver", "balancer", "workers", "harness"}
}

// linkParams documents the parameters that all faults on the links of a target
// take, and some more.
func linkParams(more map[string]string) map[string]string {
	all := map[string]string{
		"direction": "both, in (what the target receives) or out (what it sends); default both",
		"peer":      "parties at the other end, separated by commas: names (node-2, balancer, workers, harness), numbers of nodes (2), zones (zone/b); default all others",
		"port":      portDoc,
		"flap":      flapDoc,
	}
	maps.Copy(all, more)
	return all
}

// linkFault is a fault that does one impairment to the links of a target.
type linkFault struct {
	name, summary, example string
	params                 map[string]string // besides those of linkParams
	// read returns the impairment that is asked for.
	read func(Fault, Params) (framework.Impairment, error)
	// shows reports what the counters show of its effect.
	shows shows
}

func (f *linkFault) Name() string { return f.name }

func (f *linkFault) Doc() Doc {
	return Doc{
		Summary: f.summary,
		Targets: linkTargets(),
		Params:  linkParams(f.params),
		Needs:   []string{"NetworkFaulter", "PowerSwitch or ProcessReporter (nodes)", "LinkReporter (workers)", "LinkProber (links that carry nothing by themselves)"},
		Example: f.example,
	}
}

func (f *linkFault) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.impairment(c, t, p)
	return err
}

func (f *linkFault) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	x, err := f.impairment(c, t, p)
	if err != nil {
		return nil, err
	}
	return x.inject(ctx)
}

// ask implements asker.
func (f *linkFault) ask(ctx context.Context, c framework.Cluster, t Target, p Params) error {
	x, err := f.impairment(c, t, p)
	if err != nil {
		return err
	}
	checker, ok := c.(framework.ImpairmentChecker)
	if !ok {
		return nil
	}
	return x.unsupported(checker.CheckImpairment(ctx, x.links, x.asked))
}

func (f *linkFault) impairment(c framework.Cluster, t Target, p Params) (*impairment, error) {
	if err := checkParams(f, p); err != nil {
		return nil, err
	}
	asked, err := f.read(f, p)
	if err != nil {
		return nil, err
	}
	ends, ports, err := endsOf(f, c, t)
	if err != nil {
		return nil, err
	}
	x, err := newImpairment(f, c, t, p, ends)
	if err != nil {
		return nil, err
	}
	x.asked, x.shows = asked, f.shows
	if x.asked.FlapOn, x.asked.FlapOff, err = flapParam(f, p); err != nil {
		return nil, err
	}
	if ports, err = portParam(f, p, ports); err != nil {
		return nil, err
	}
	var own []string
	for _, e := range ends {
		own = append(own, e.name)
	}
	peers, err := peerParam(f, p, x, own)
	if err != nil {
		return nil, err
	}
	direction, err := choiceParam(f, p, "direction", "both", "in", "out")
	if err != nil {
		return nil, err
	}
	x.links = linksBetween(own, peers, direction, ports)
	return x, x.check()
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

// endsOf returns the parties that a target stands for, and the ports of its
// component, if it is one.
func endsOf(f Fault, c framework.Cluster, t Target) (ends []party, ports []uint16, err error) {
	switch {
	case t.Host != "":
		e := party{name: t.Host}
		if t.Component != "" {
			e.components = []framework.Component{t.Component}
			e.reporter, _ = c.(framework.ProcessReporter)
		}
		return []party{e}, nil, nil
	case t.Component == "":
		nodes, err := wholeNodes(f, c, t)
		if err != nil {
			return nil, nil, err
		}
		ends, err = nodeParties(f, nodes)
		return ends, nil, err
	case t.Component == framework.Etcd:
		ports = []uint16{etcdPeerPort, etcdClientPort}
	case t.Component == framework.APIServer:
		ports = []uint16{apiServerPort}
	default:
		return nil, nil, fmt.Errorf("fault %s: target %s: %s speaks to nobody across the network: it takes %s", f.Name(), t.Asked, t.Component, listed(linkTargets()))
	}
	if _, _, err := componentHolder(f, c, t); err != nil {
		return nil, nil, err
	}
	n, err := node(c, t)
	if err != nil {
		return nil, nil, err
	}
	e, err := nodeParty(f, n, []framework.Component{t.Component})
	return []party{e}, ports, err
}

// peerParam returns the parties at the other end of a target's links.
func peerParam(f Fault, p Params, x *impairment, own []string) ([]string, error) {
	others := slices.DeleteFunc(slices.Clone(x.network.Parties()), func(party string) bool { return slices.Contains(own, party) })
	if p.Values["peer"] == "" {
		return others, nil
	}
	var peers []string
	for word := range strings.SplitSeq(p.Values["peer"], ",") {
		named := partiesNamed(x.cluster, x.network.Parties(), strings.TrimSpace(word))
		for _, name := range named {
			if !slices.Contains(others, name) {
				named = nil
			}
		}
		if len(named) == 0 {
			return nil, badParam(f, p, "peer", "a list of %s, or a node's number, or a zone that the target is not in; %q is none of them", listed(others), word)
		}
		peers = append(peers, named...)
	}
	slices.Sort(peers)
	return slices.Compact(peers), nil
}

// partiesNamed returns the parties that a word stands for: a party's name, the
// number of a node in the order of joining, or a target that needs no asking
// (node/2, zone/b). It returns none for a word that stands for nothing.
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
	nodes := nodeNames(c.Nodes())
	which := strings.TrimPrefix(word, "node/")
	if n, err := strconv.Atoi(which); err == nil && n >= 1 && n <= len(nodes) {
		return nodes[n-1 : n]
	}
	if slices.Contains(nodes, which) {
		return []string{which}
	}
	return nil
}

// portParam returns the ports to which links are narrowed; none means all.
func portParam(f Fault, p Params, unset []uint16) ([]uint16, error) {
	v := p.Values["port"]
	switch v {
	case "":
		return unset, nil
	case "all":
		return nil, nil
	}
	named := map[string]uint16{"etcd-peer": etcdPeerPort, "etcd-client": etcdClientPort, "apiserver": apiServerPort}
	var ports []uint16
	for word := range strings.SplitSeq(v, ",") {
		word = strings.TrimSpace(word)
		port, ok := named[word]
		if !ok {
			n, err := strconv.ParseUint(word, 10, 16)
			if err != nil || n == 0 {
				return nil, badParam(f, p, "port", "all, or a list of etcd-peer, etcd-client, apiserver and numbers from 1 to 65535")
			}
			port = uint16(n)
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// Limits of one phase of a fault that flaps.
const (
	flapShortest = 10 * time.Millisecond
	flapLongest  = time.Hour
)

// flapParam returns the phases of a fault that comes and goes; unset is 0.
func flapParam(f Fault, p Params) (on, off time.Duration, err error) {
	v := p.Values["flap"]
	if v == "" {
		return 0, 0, nil
	}
	first, second, _ := strings.Cut(v, "/")
	on, onErr := time.ParseDuration(first)
	off, offErr := time.ParseDuration(second)
	if onErr != nil || offErr != nil || min(on, off) < flapShortest || max(on, off) > flapLongest {
		return 0, 0, badParam(f, p, "flap", "two durations from %s to %s, such as 1s/500ms", flapShortest, flapLongest)
	}
	return on, off, nil
}

func listed(words []string) string { return strings.Join(words, ", ") }
