package selftest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
	"github.com/holdfast-ha/holdfast/clusters/local/vip"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// The kinds of clusters for requirements about clients and balancing.
const (
	// drains has API servers that keep serving until the balancer has noticed that they are
	// stopping; drainsProxied also has proxies.
	drains, drainsProxied = "drains", "drains-proxied"
	// spreading has API servers that also close kept connections now and then.
	spreading = "spreading"
	// blind has a balancer without health checks; blindSpreading is the same with API servers
	// that close connections now and then.
	blind, blindSpreading = "blind", "blind-spreading"
	// blindScaled is blind, and nodes count as lost after 12 s.
	blindScaled = "blind-scaled"
	// unforgiving has a balancer that requires forty successful checks of an API server that is
	// back.
	unforgiving = "unforgiving"
	// moving has an address that moves to a node with a ready API server; the address of fixed
	// never moves.
	moving, fixed = "moving-address", "fixed-address"
	// faithful has a balancer in front of etcd that keeps clients on their member; the one of
	// fickle does not.
	faithful, fickle = "etcd-affinity", "etcd-round-robin"
)

func balancingKinds() map[string]kind {
	drain := clusters.ExtraArgs{framework.APIServer: {"shutdown-delay-duration": "5s", "shutdown-watch-termination-grace-period": "2s", "shutdown-send-retry-after": "true"}}
	spread := with(drain.Merge(clusters.ExtraArgs{framework.APIServer: {"goaway-chance": "0.02"}}))
	unseeingSpread := with(spread.Spec.ExtraArgs)
	unseeingSpread.Spec.LoadBalancer.HealthCheck.Disabled = true
	unseeing, slow := with(drain), with(drain)
	unseeing.Spec.LoadBalancer.HealthCheck.Disabled = true
	slow.Spec.LoadBalancer.HealthCheck.Rise = 40
	unseeingScaled := scaledTime(nil)
	unseeingScaled.Spec.LoadBalancer.HealthCheck.Disabled = true
	moves, stays := with(nil), with(nil)
	moves.Spec.LoadBalancer.Kind, stays.Spec.LoadBalancer.Kind = clusters.BalancerVIP, clusters.BalancerVIP
	stays.Spec.LoadBalancer.HealthCheck.Disabled = true
	keeps, turns := with(nil), with(nil)
	keeps.Spec.EtcdBalancer, turns.Spec.EtcdBalancer = clusters.EtcdBalancerAffinity, clusters.EtcdBalancerRoundRobin
	return map[string]kind{
		faithful:       {keeps, false},
		fickle:         {turns, false},
		moving:         {moves, false},
		fixed:          {stays, false},
		drains:         {with(drain), false},
		drainsProxied:  {with(drain), true},
		spreading:      {spread, false},
		blind:          {unseeing, false},
		blindSpreading: {unseeingSpread, false},
		blindScaled:    {unseeingScaled, false},
		unforgiving:    {slow, false},
	}
}

// balancingPlants are those about clients and balancing.
func balancingPlants() []Plant {
	return []Plant{
		{Name: "unseen-death", Violation: "a balancer without health checks, and an API server that is killed",
			Cluster: blind, Twin: drains, Scenario: "catalogue/apiserver-killed",
			Catches: []Catch{
				{Requirement: "HA-CL-003", Says: "must not see errors for longer than"},
				{Requirement: "HA-CL-013", Says: "must not be answered with 401, 403 or 404"},
			}},
		{Name: "no-drain", Violation: "a balancer that continues to send clients to an API server that is being stopped, and to one that does not know the roles yet",
			Cluster: blindSpreading, Twin: spreading, Scenario: "catalogue/apiserver-drained",
			Catches: slices.Concat(
				both("HA-CL-004", "no-failed-request", "must see no failed request"),
				both("HA-CL-012", "drained-by-readiness", "was still in use when"),
				both("HA-CL-013", "returns-ready", "must not be answered with 401, 403 or 404"))},
		{Name: "no-lists-while-one-stops", Violation: "API servers that refuse lists with status 503, without Retry-After, while another one is stopped gracefully",
			Cluster: drainsProxied, Twin: drainsProxied, Scenario: "apiserver-stopped", From: 1, Until: 3,
			Tamper:  []Tampering{api(tamper.Rule{Mode: tamper.RefusedList, Prefix: configs})},
			Catches: both("HA-CL-004", "no-failed-request", "(list of ")},
		{Name: "no-watches-while-one-stops", Violation: "API servers that refuse new watches with status 503, without Retry-After, while another one is stopped gracefully",
			Cluster: drainsProxied, Twin: drainsProxied, Scenario: "apiserver-stopped", From: 1, Until: 3,
			Tamper:  []Tampering{api(tamper.Rule{Mode: tamper.RefusedWatch, Prefix: configs})},
			Catches: both("HA-CL-004", "no-failed-request", "(watch of ")},
		{Name: "kept-for-good", Violation: "API servers that never close a connection that clients keep, behind a balancer that does not either",
			Cluster: drains, Twin: spreading, Scenario: "catalogue/apiserver-drained",
			Catches: both("HA-CL-014", "spreads-again", "Set --goaway-chance on the API servers")},
		{Name: "never-taken-back", Violation: "a balancer that requires forty successful checks of an API server that is back",
			Cluster: unforgiving, Twin: drains, Scenario: "catalogue/apiserver-killed",
			Catches: slices.Concat(
				both("HA-CL-005", "backend-returned", "it did not use"),
				both("HA-WCH-006", "watches-return", "must be spread again"))},
		{Name: "unseen-silence", Violation: "a balancer without health checks, and an API server that stops answering",
			Cluster: blind, Twin: drains, Scenario: "catalogue/apiserver-black-holed",
			Catches: []Catch{{Requirement: "HA-CL-006", Says: "must not see errors for longer than"}}},
		{Name: "half-open", Violation: "a balancer without health checks, and a node that is cut off for longer than nodes may be silent, which client-go notices after 45 s",
			Cluster: blindScaled, Twin: scaled, Scenario: "catalogue/node-lost",
			Catches: both("HA-CL-015", "clients-recover", "connection through balancer must not see errors for longer than"),
			// The workers' own connection may be on that node.
			May: []string{"HA-WL-002", "HA-CL-008"}},
		{Name: "balancer-does-not-stay-up", Violation: "a balancer that keeps exiting after it was killed",
			Cluster: drains, Twin: drains, Scenario: "catalogue/balancer-killed", From: 2, Do: loopBalancer,
			Catches: []Catch{{Requirement: "HA-CL-007", Says: "must stay up once it is started again"}}},
		{Name: "fickle-balancer", Violation: "a balancer in front of etcd that sends each connection to another member",
			Cluster: fickle, Twin: faithful, Scenario: "catalogue/etcd-balanced",
			Catches: both("HA-CL-011", "session-affinity", "must stay on its etcd member")},
		{Name: "address-stays", Violation: "nodes that keep the address of the cluster without checking whether their API server runs",
			Cluster: fixed, Twin: moving, Scenario: "catalogue/balanced-by-vip",
			Catches: []Catch{{Requirement: "HA-CL-010", Says: "must not see errors for longer than"}}},
		{Name: "deaf-nodes", Violation: "nodes that share a virtual IP, and do not receive each other's messages about it once its node is cut off",
			Cluster: moving, Twin: moving, Scenario: "catalogue/balanced-by-vip", From: 6, Do: cut(between(vip.Port), 12*time.Second),
			Catches: both("HA-CL-016", "one-address", "must be on one node only")},
		{Name: "standbys-stay-down", Violation: "the virtual-IP processes are down on all nodes but the holder when that one is cut off, for longer than the address may take to move",
			Cluster: moving, Twin: moving, Scenario: "catalogue/balanced-by-vip", From: 5, Do: standbysDown, May: []string{"restarts"},
			Catches: both("HA-CL-016", "one-address", "it was on no node that clients could reach")},
	}
}

// loopBalancer makes the balancer exit soon after each start, for longer than the restart limit.
func loopBalancer(ctx context.Context, c framework.Cluster) error {
	l, ok := c.(framework.CrashLooper)
	if !ok {
		return errors.New("the balancer cannot be put in a crash loop")
	}
	return crashLoop(ctx, l, framework.LoadBalancer, 11*time.Second)
}

// standbysDown keeps the processes down that would take an address over from its holder, until its
// node has been cut off and is back.
func standbysDown(ctx context.Context, c framework.Cluster) error {
	holder, err := fault.Resolve(ctx, c, "node/serving")
	if err != nil {
		return err
	}
	for i, n := range c.Nodes() {
		if n.Name() == holder.Node {
			continue
		}
		if err := killed(i+1, framework.VirtualIP, 14*time.Second)(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
