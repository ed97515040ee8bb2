package local

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// TestBalancerOnDemand lets a load balancer come with the second node and go with the last
// but one. Clients keep its address throughout, also of a node that was rebooted since.
func TestBalancerOnDemand(t *testing.T) {
	c := newCluster(t, func(s *clusters.Cluster) {
		s.SetNodes(1)
		s.Spec.Workers, s.Spec.LoadBalancer.Kind = 0, clusters.BalancerOnDemand
	})
	w := writing(t, c)
	runs := func(want bool) {
		t.Helper()
		eventually(t, 5*time.Second, "the load balancer to come or go", func() bool {
			p, err := c.Process(t.Context(), framework.LoadBalancer)
			return err == nil && (p.PID != 0) == want
		})
		if has := slices.Contains(c.Parties(), framework.BalancerHost); has != want {
			t.Errorf("the load balancer's host is among the parties: %t", has)
		}
		holder := netip.Addr{}
		for _, n := range c.controlPlane() {
			if claimed := n.machine.config.Claimed; claimed.IsValid() {
				holder = claimed
			}
		}
		if holder.IsValid() == want {
			t.Errorf("a node has the load balancer's address: %s", holder)
		}
		if backends, err := c.Backends(t.Context()); err != nil || len(backends) != len(c.Nodes()) {
			t.Errorf("the backends are %+v, %v", backends, err)
		}
		list := listedAddresses(t, c, c.Entrances()[0])
		t.Logf("%v are listed through the load balancer's address", list)
	}
	runs(false)
	for _, last := range []string{record.StepBalancerStart, record.StepBalance} {
		stop := errors.New("interrupted")
		ctx := framework.WithSteps(t.Context(), func(s framework.Step) error {
			if s.Name == last {
				return stop
			}
			return nil
		})
		if _, err := c.AddNode(ctx); !errors.Is(err, stop) {
			t.Fatal(err)
		}
		runs(false)
	}
	second := added(t, c)
	runs(true)
	removed(t, c, "node-1")
	runs(false)
	n := c.controlPlane()[0]
	if n.Name() != second.Name() {
		t.Fatalf("%s is left", n.Name())
	}
	if err := n.machine.powerOff(0); err != nil {
		t.Fatal(err)
	}
	if err := n.machine.powerOn(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, component := range restartOrder {
		if err := n.awaitServing(t.Context(), component); err != nil {
			t.Error(err)
		}
	}
	runs(false)
	added(t, c)
	runs(true)
	if acknowledged := w.stop(t); len(acknowledged) < 20 {
		t.Errorf("only %d writes were acknowledged", len(acknowledged))
	}
}
