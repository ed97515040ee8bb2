package fault

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// proveLinkFault runs the common tests on a link fault, and checks what it requests of the
// network.
func proveLinkFault(t *testing.T, f *Fault, params map[string]string, asks framework.Impairment) {
	t.Helper()
	name := "default"
	for k, v := range params {
		name = k + "=" + v
	}
	t.Run(name, func(t *testing.T) {
		proofs{
			fault:   f,
			target:  wholeTarget("node-2"),
			params:  params,
			broken:  (*fakeCluster).impaired,
			already: func(c *fakeCluster) { c.nodes[1].power(false) },
		}.run(t)
		c := newFake(framework.APIServer)
		x, err := impairmentOf(f, c, wholeTarget("node-2"), params)
		if err != nil || x.asked != asks {
			t.Errorf("asks for %+v, want %+v (%v)", x.asked, asks, err)
		}
	})
}

func impairmentOf(f *Fault, c framework.Cluster, t Target, values map[string]string) (*impairment, error) {
	r, err := f.request(c, t, Params{TTL: ttl, Values: values})
	if err != nil {
		return nil, err
	}
	return f.impair(r)
}

func TestLinksOfATarget(t *testing.T) {
	c := reportingCluster{newFake(framework.APIServer, framework.Etcd)}
	zone := Target{Asked: "zone/b", Nodes: []string{"node-2", "node-3"}}
	etcd, api := component("node-1", framework.Etcd), component("node-1", framework.APIServer)
	balancer := Target{Asked: "balancer", Host: "balancer", Component: framework.LoadBalancer}
	workers := Target{Asked: "workers", Host: "workers"}
	for _, tc := range []struct {
		name   string
		target Target
		params map[string]string
		want   []string
		ports  []uint16
	}{
		{"node", wholeTarget("node-1"), nil, []string{
			"node-1>balancer", "node-1>harness", "node-1>node-2", "node-1>node-3", "node-1>workers",
			"balancer>node-1", "harness>node-1", "node-2>node-1", "node-3>node-1", "workers>node-1"}, nil},
		{"in", wholeTarget("node-1"), map[string]string{"direction": "in", "peer": "node-2, harness"},
			[]string{"harness>node-1", "node-2>node-1"}, nil},
		{"out, by number", wholeTarget("node-1"), map[string]string{"direction": "out", "peer": "2,node/3,node-2"},
			[]string{"node-1>node-2", "node-1>node-3"}, nil},
		{"zone as a peer", wholeTarget("node-1"), map[string]string{"direction": "out", "peer": "zone/b"},
			[]string{"node-1>node-2", "node-1>node-3"}, nil},
		{"zone", zone, map[string]string{"direction": "out", "peer": "1,workers"},
			[]string{"node-2>node-1", "node-3>node-1", "node-2>workers", "node-3>workers"}, nil},
		{"etcd", etcd, map[string]string{"peer": "2", "direction": "out"}, []string{"node-1>node-2"}, []uint16{2380, 2379}},
		{"API server", api, map[string]string{"peer": "balancer", "direction": "in"}, []string{"balancer>node-1"}, []uint16{6443}},
		{"etcd, all ports", etcd, map[string]string{"peer": "2", "direction": "out", "port": "all"}, []string{"node-1>node-2"}, nil},
		{"ports", workers, map[string]string{"peer": "balancer", "direction": "out", "port": "apiserver, etcd-peer,8404"},
			[]string{"workers>balancer"}, []uint16{6443, 2380, 8404}},
		{"balancer", balancer, map[string]string{"peer": "zone/a"}, []string{"balancer>node-1", "node-1>balancer"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x, err := impairmentOf(Cut, c, tc.target, tc.params)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range x.links {
				got = append(got, l.From+">"+l.To)
				if !slices.Equal(l.Ports, tc.ports) {
					t.Errorf("ports %v, want %v", l.Ports, tc.ports)
				}
			}
			slices.Sort(got)
			slices.Sort(tc.want)
			if !slices.Equal(got, tc.want) {
				t.Errorf("links %v, want %v", got, tc.want)
			}
		})
	}
}

// TestPortsOfTheNodes: links are narrowed to the ports on which the components serve, and to the
// usual ones where a node does not report them.
func TestPortsOfTheNodes(t *testing.T) {
	serve := func(n *fakeNode, c framework.Component, addresses ...string) {
		if n.serves == nil {
			n.serves = map[framework.Component][]framework.ServingEndpoint{}
		}
		for i := 0; i < len(addresses); i += 2 {
			n.serves[c] = append(n.serves[c], framework.ServingEndpoint{Name: addresses[i], Address: addresses[i+1]})
		}
	}
	c := &etcdCluster{fakeCluster: newFake(framework.APIServer, framework.Etcd)}
	serve(c.nodes[0], framework.APIServer, "https", "10.0.0.1:8443")
	serve(c.nodes[0], framework.Etcd, "client", "10.0.0.1:12379", "peer", "10.0.0.1:12380")
	serve(c.nodes[1], framework.APIServer, "https", "[fd00::2]:443")
	serve(c.nodes[2], framework.APIServer, "https", "no port")
	etcd := []uint16{2380, 12380, 2379, 12379}
	for _, tc := range []struct {
		fault  *Fault
		target Target
		port   string
		want   []uint16
	}{
		{BlackHole, component("node-1", framework.APIServer), "", []uint16{8443}},
		{Cut, component("node-2", framework.APIServer), "", []uint16{443}},
		{Cut, component("node-3", framework.APIServer), "", []uint16{6443}},
		{Latency, component("node-1", framework.Etcd), "", etcd},
		{Latency, component("node-2", framework.Etcd), "", etcd},
		{IsolateEtcd, component("node-1", framework.Etcd), "", etcd},
		{Cut, wholeTarget("node-1"), "", nil},
		{Cut, component("node-1", framework.APIServer), "all", nil},
		{Cut, wholeTarget("node-1"), "apiserver, 8404", []uint16{443, 6443, 8443, 8404}},
		{Split, wholeTarget("node-1"), "etcd-client", []uint16{2379, 12379}},
	} {
		values := map[string]string{}
		if tc.port != "" {
			values["port"] = tc.port
		}
		x, err := impairmentOf(tc.fault, c, tc.target, values)
		if err != nil {
			t.Fatal(err)
		}
		if got := x.links[0].Ports; !slices.Equal(got, tc.want) {
			t.Errorf("%s of %s, port=%s: %v, want %v", tc.fault.Name, tc.target, tc.port, got, tc.want)
		}
		server := tc.target.Component == framework.APIServer || strings.HasPrefix(tc.port, "apiserver") || tc.want == nil
		if x.carries(apiServer) != server || x.carries(etcdPeer, etcdClient) != (!server || tc.want == nil) {
			t.Errorf("%s of %s, port=%s: whose proof is read? API server %t, etcd %t", tc.fault.Name, tc.target, tc.port, x.carries(apiServer), x.carries(etcdPeer, etcdClient))
		}
	}
}

func TestLinkFaultsRefuse(t *testing.T) {
	c := newFake(framework.APIServer, framework.Scheduler)
	node := wholeTarget("node-1")
	for _, tc := range []struct {
		fault  *Fault
		target Target
		values map[string]string
		want   string
	}{
		{Latency, node, map[string]string{"delay": "-20ms"}, "from 100µs to 1m"},
		{Latency, node, map[string]string{"delay": "20"}, "a duration from 100µs to 1m"},
		{Latency, node, map[string]string{"jitter": "2h"}, "from 0s to 1m"},
		{Latency, node, map[string]string{"distribution": "cauchy"}, "uniform, normal, pareto"},
		{Loss, node, map[string]string{"share": "130%"}, "up to 100%"},
		{Loss, node, map[string]string{"share": "0"}, "above 0%"},
		{Duplicate, node, map[string]string{"share": "NaN"}, "up to 100%"},
		{Reorder, node, map[string]string{"share": "often"}, "up to 100%"},
		{Corrupt, node, map[string]string{"share": "-1%"}, "above 0%"},
		{Bandwidth, node, map[string]string{"rate": "10"}, "such as 10M"},
		{Bandwidth, node, map[string]string{"rate": "fast"}, "such as 10M"},
		{BlackHole, node, map[string]string{"established": "maybe"}, "true or false"},
		{Reset, node, map[string]string{"established": "1"}, "true or false"},
		{Cut, node, map[string]string{"direction": "up"}, "both, in, out"},
		{Cut, node, map[string]string{"peer": "node-1"}, "node-2, node-3, balancer"},
		{Cut, node, map[string]string{"peer": "zone/a"}, "not one of them"},
		{Cut, node, map[string]string{"peer": "4"}, "not one of them"},
		{Cut, node, map[string]string{"peer": "node-2,"}, "not one of them"},
		{Cut, node, map[string]string{"port": "http"}, "etcd-peer, etcd-client, apiserver (where the nodes serve these"},
		{Cut, node, map[string]string{"port": "70000"}, "from 1 to 65535"},
		{Cut, node, map[string]string{"port": "0"}, "from 1 to 65535"},
		{Cut, node, map[string]string{"flap": "1s"}, "such as 1s/500ms"},
		{Cut, node, map[string]string{"flap": "1s/1ns"}, "from 10ms"},
		{Cut, node, map[string]string{"flap": "-1s/1s"}, "from 10ms"},
		{Cut, node, map[string]string{"share": "1"}, "the fault accepts direction, flap, peer, port"},
		{Cut, component("node-1", framework.Scheduler), nil, "the fault accepts node, zone, nodes, etcd, apiserver"},
		{Cut, component("node-1", framework.NodeAgent), nil, "the fault accepts node, zone, nodes, etcd, apiserver"},
		{Cut, component("node-1", framework.Etcd), nil, "does not run etcd"},
		{Cut, wholeTarget("node-7"), nil, "node-1, node-2, node-3"},
		{Cut, Target{Asked: "moon", Host: "moon"}, nil, "the fault accepts node, zone"},
		{Isolate, node, map[string]string{"flap": "x/y"}, "such as 1s/500ms"},
		{Split, node, map[string]string{"flap": "x/y"}, "such as 1s/500ms"},
	} {
		p := Params{TTL: ttl, Values: tc.values}
		if err := tc.fault.Check(c, tc.target, p); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %v: %v, want words %q", tc.fault.Name, tc.values, err, tc.want)
		}
	}
	var missing *MissingAbility
	workers := Target{Asked: "workers", Host: "workers"}
	if err := Cut.Check(c, workers, Params{TTL: ttl}); !errors.As(err, &missing) || missing.Ability != "LinkReporter" {
		t.Errorf("workers without a report about links: %v", err)
	}
	if err := Cut.Check(reportingCluster{c}, workers, Params{TTL: ttl}); err != nil {
		t.Errorf("workers: %v", err)
	}
	if c.asked != 0 {
		t.Errorf("asked %d times", c.asked)
	}
}

// Delays that are too short are not proof, whatever the packet counter says.
func TestLatencyTooShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.APIServer)
		c.late = -5 * time.Millisecond
		i := proofs{fault: Latency, target: wholeTarget("node-2")}.inject(t, c)
		if i.Proof().Proven || !strings.Contains(i.Proof().What, "15ms on average (20ms") {
			t.Errorf("%+v", i.Proof())
		}
		c.late = 3 * time.Millisecond
		i = proofs{fault: Latency, target: wholeTarget("node-2")}.inject(t, c)
		if !i.Proof().Proven || !strings.Contains(i.Proof().What, "23ms on average (20ms") {
			t.Errorf("%+v", i.Proof())
		}
	})
}

// Hosts that cannot be queried prove their healing by packets that get through, and by links
// without the impairment.
func TestLinksOfTheWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := reportingCluster{newFake(framework.APIServer)}
		workers := Target{Asked: "workers", Host: "workers"}
		i, err := Cut.Inject(t.Context(), c, workers, Params{TTL: ttl})
		if err != nil || !i.Proof().Proven || !reflect.DeepEqual(i.Target(), workers) {
			t.Fatalf("%v, %v", i, err)
		}
		c.stubborn = true
		if healed, err := i.Heal(t.Context()); err != nil || healed.Proven {
			t.Errorf("healed by nothing: %+v, %v", healed, err)
		}
		c.stubborn = false
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven || !strings.Contains(healed.What, "delivered") {
			t.Errorf("%+v, %v", healed, err)
		}
	})
}

// If the provider can tell, a link that still has the impairment does not prove healing, even if
// it impairs nothing just now.
func TestImpairmentLeftOnALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := reportingCluster{newFake(framework.APIServer)}
		time.Sleep(time.Minute)
		i, err := Loss.Inject(t.Context(), c, wholeTarget("node-2"), Params{TTL: ttl})
		if err != nil || !i.Proof().Proven {
			t.Fatalf("%v, %v", i, err)
		}
		c.stubborn = true
		c.cuts[0].still = true
		if healed, err := i.Heal(t.Context()); err != nil || healed.Proven || !strings.Contains(healed.What, "impairment a is still on the links") {
			t.Errorf("%+v, %v", healed, err)
		}
		c.stubborn = false
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
			t.Errorf("%+v, %v", healed, err)
		}
	})
}

// An impairment is healed alone also where its target has lost power since.
func TestImpairmentOfANodeThatIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := reportingCluster{newFake(framework.APIServer)}
		time.Sleep(time.Minute)
		i, err := Isolate.Inject(t.Context(), c, wholeTarget("node-2"), Params{TTL: ttl})
		if err != nil || !i.Proof().Proven {
			t.Fatalf("%v, %v", i, err)
		}
		c.nodes[1].power(false)
		c.stubborn = true
		if healed, err := i.Heal(t.Context()); err != nil || healed.Proven {
			t.Errorf("healed by nothing: %+v, %v", healed, err)
		}
		c.stubborn = false
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven || !strings.Contains(healed.What, "powered off") {
			t.Errorf("%+v, %v", healed, err)
		}
	})
}

// Several impairments on the same links, each healed alone. If the provider reports about links,
// none needs the others to be healed first.
func TestOverlappingImpairments(t *testing.T) {
	for _, order := range [][]int{{1, 3, 0, 2}, {3, 1, 2, 0}, {0, 2, 3, 1}} {
		synctest.Test(t, func(t *testing.T) {
			c := reportingCluster{newFake(framework.APIServer)}
			time.Sleep(time.Minute)
			var all []Injection
			for _, f := range []*Fault{Latency, Cut, Loss, Isolate} {
				i, err := f.Inject(t.Context(), c, wholeTarget("node-2"), Params{TTL: ttl})
				if err != nil || !i.Proof().Proven {
					t.Fatalf("%s: %v, %v", f.Name, i, err)
				}
				all = append(all, i)
			}
			for _, at := range order {
				if healed, err := all[at].Heal(t.Context()); err != nil || !healed.Proven {
					t.Errorf("%d: %+v, %v", at, healed, err)
				}
			}
			if c.impaired() {
				t.Error("an impairment is left")
			}
		})
	}
}

// limitedCluster cannot put delays on its links.
type limitedCluster struct{ *fakeCluster }

func (c limitedCluster) CheckImpairment(_ context.Context, links []framework.Link, imp framework.Impairment) error {
	if imp.Delay > 0 && len(links) > 0 {
		return fmt.Errorf("the link from %s: %w", links[0].From, errors.ErrUnsupported)
	}
	return nil
}

func (c limitedCluster) Impair(ctx context.Context, links []framework.Link, imp framework.Impairment, ttl time.Duration) (string, error) {
	if err := c.CheckImpairment(ctx, links, imp); err != nil {
		return "", err
	}
	return c.fakeCluster.Impair(ctx, links, imp, ttl)
}

// What the network cannot do is a missing ability, and is known in advance.
func TestUnsupportedImpairment(t *testing.T) {
	c := limitedCluster{newFake(framework.APIServer)}
	target, p := wholeTarget("node-2"), Params{TTL: ttl}
	if err := Cut.Possible(t.Context(), c, target, p); err != nil {
		t.Error(err)
	}
	before := Latency.Possible(t.Context(), c, target, p)
	_, then := Latency.Inject(t.Context(), c, target, p)
	for _, err := range []error{before, then} {
		var missing *MissingAbility
		if !errors.As(err, &missing) || missing.Ability != "NetworkFaulter" || !strings.Contains(err.Error(), "the link from node-2") {
			t.Errorf("%v", err)
		}
	}
	if c.asked != 0 {
		t.Errorf("the network was asked for %d impairments", c.asked)
	}
	if err := Latency.Possible(t.Context(), c.fakeCluster, target, p); err != nil {
		t.Errorf("where nobody can tell beforehand: %v", err)
	}
	if err := Latency.Possible(t.Context(), c, target, Params{}); err == nil {
		t.Error("what Check refuses is possible")
	}
}
