package selftest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// unstrict has etcd members that accept any other member.
	unstrict = "unstrict"
	// onDemand has a load balancer while there are two or more nodes.
	onDemand = "balancer-on-demand"
)

func memberKinds() map[string]kind {
	comes := with(nil)
	comes.Spec.LoadBalancer.Kind = clusters.BalancerOnDemand
	return map[string]kind{
		unstrict: {with(clusters.ExtraArgs{framework.Etcd: {"strict-reconfig-check": "false"}}), false},
		onDemand: {comes, false},
	}
}

// memberPlants are those for requirements on etcd's members.
func memberPlants() []Plant {
	const phantom = "left and 1 have joined"
	const unavailable = "must not go without a successful request"
	return []Plant{
		{Name: "phantom-member", Violation: "another process adds a member that no node runs whenever one was removed, and removes it 2 s later",
			Cluster: growing, Twin: growing, Scenario: "catalogue/nodes-scaled", From: 3, Do: phantomMember,
			Catches: []Catch{
				{Judge: "members-follow", Says: phantom},
				{Requirement: "HA-MB-002", Says: phantom},
				{Requirement: "HA-MB-003", Says: phantom},
				{Requirement: "HA-MB-004", Says: phantom},
			}, May: []string{"steady-state"}},
		{Name: "clients-cut-off-with-a-loss", Violation: "clients are cut off from the load balancer for 30 s when a node is lost",
			Cluster: growing, Twin: growing, Scenario: "catalogue/nodes-scaled", From: 3, Do: cut(toBalancer, 30*time.Second),
			Catches: []Catch{{Requirement: "HA-MB-005", Says: unavailable}}, May: []string{"steady-state", "watch-alive"}},
		{Name: "clients-cut-off", Violation: "clients are cut off from the load balancer for 60 s in each 66 s while members are replaced",
			Cluster: growing, Twin: growing, Scenario: "catalogue/members-replaced", From: 5, Do: cutAgain(toBalancer, time.Minute, 6*time.Second),
			Catches: []Catch{
				{Requirement: "HA-MB-001", Says: unavailable},
				{Requirement: "HA-MB-008", Says: unavailable},
				{Requirement: "HA-MB-009", Says: "must not see errors for longer than"},
				{Requirement: "HA-MB-010", Says: unavailable},
				{Requirement: "HA-MB-011", Says: unavailable},
			}, May: []string{"steady-state", "watch-alive"}},
		{Name: "members-not-listed", Violation: "kube-apiserver --endpoint-reconciler-type=none, a single node that becomes three",
			Cluster: unlearnt, Twin: growing, Scenario: "catalogue/members-replaced",
			Catches: []Catch{{Requirement: "HA-MB-001", Says: "still held []"}}, May: []string{"endpoints-never-empty", "steady-state"}},
		{Name: "leaves-a-member", Violation: "a member that no node runs is left, for 2 s, by the last addition that was interrupted",
			Cluster: growing, Twin: growing, Scenario: "catalogue/members-replaced", From: 16, Do: phantomOnce,
			// The next removal finds one member more, too.
			Catches: []Catch{{Requirement: "HA-MB-008", Says: phantom}}, May: []string{"HA-MB-003", "steady-state"}},
		{Name: "balancer-stays", Violation: "the load balancer runs with a single node, too",
			Cluster: growing, Twin: onDemand, Scenario: "catalogue/balancer-on-demand", From: 3,
			Catches: both("HA-MB-006", "balancer-follows", "with 1 control-plane node after the removal")},
		{Name: "any-member-taken", Violation: "etcd --strict-reconfig-check=false",
			Cluster: unstrict, Scenario: "catalogue/etcd-members-killed",
			Catches: append(both("HA-MB-007", "unsafe-member-refused", "must refuse another voting member"),
				Catch{Requirement: "HA-QR-004", Says: "must resume within"}), // it costs the quorum
			May: []string{"steady-state", "restarts", "watch-alive"}},
	}
}

// cut cuts links of a cluster for ttl.
func cut(links func(framework.Cluster) []framework.Link, ttl time.Duration) func(context.Context, framework.Cluster) error {
	return func(ctx context.Context, c framework.Cluster) error {
		n, ok := c.(framework.NetworkFaulter)
		if !ok {
			return fmt.Errorf("the network of cluster %s cannot be cut", c.Name())
		}
		_, err := n.Impair(ctx, links(c), framework.Impairment{Cut: true}, ttl)
		return err
	}
}

// cutAgain alternates between cutting links and leaving them whole, until ctx is done.
func cutAgain(links func(framework.Cluster) []framework.Link, ttl, whole time.Duration) func(context.Context, framework.Cluster) error {
	once := cut(links, ttl)
	return func(ctx context.Context, c framework.Cluster) error {
		if err := once(ctx, c); err != nil {
			return err
		}
		go func() {
			for client.Pause(ctx, ttl+whole) && once(ctx, c) == nil {
			}
		}()
		return nil
	}
}

// between returns the links from each node to each other one, to these ports only if any are given.
func between(ports ...uint16) func(framework.Cluster) []framework.Link {
	return func(c framework.Cluster) (links []framework.Link) {
		for _, from := range c.Nodes() {
			for _, to := range c.Nodes() {
				if from.Name() != to.Name() {
					links = append(links, framework.Link{From: from.Name(), To: to.Name(), Ports: ports})
				}
			}
		}
		return links
	}
}

// toBalancer returns the path of clients to the load balancer.
func toBalancer(framework.Cluster) []framework.Link {
	return []framework.Link{{From: framework.HarnessHost, To: framework.BalancerHost, Ports: []uint16{6443}}}
}

// fromBalancer returns the paths of the load balancer to nodes.
func fromBalancer(c framework.Cluster) (links []framework.Link) {
	for _, n := range c.Nodes() {
		links = append(links, framework.Link{From: framework.BalancerHost, To: n.Name()})
	}
	return links
}

// phantomMember adds a voting member that no process runs as soon as one has left, and removes it
// 2 s later, until ctx is done.
func phantomMember(ctx context.Context, c framework.Cluster) error { return phantoms(ctx, c, false) }

// phantomOnce is phantomMember for the first member that leaves.
func phantomOnce(ctx context.Context, c framework.Cluster) error { return phantoms(ctx, c, true) }

func phantoms(ctx context.Context, c framework.Cluster, once bool) error {
	access, ok := c.(framework.EtcdAccess)
	if !ok {
		return errors.New("the cluster gives no access to its etcd members")
	}
	node := c.Nodes()[1]
	peer := "https://" + net.JoinHostPort(node.Address().String(), "2399")
	go func() {
		known, turn := 0, 0
		for client.Pause(ctx, 20*time.Millisecond) {
			nodes := c.Nodes()
			if voters, ok := phantomAfter(ctx, access, nodes[turn%len(nodes)].Name(), peer, known); ok {
				if once && voters < known {
					return
				}
				known = voters
			} else {
				turn++ // that member may have lost its power
			}
		}
	}()
	return nil
}

// phantomAfter queries the member on a node for the number of voters, and adds one if it has
// decreased.
func phantomAfter(ctx context.Context, access framework.EtcdAccess, node, peer string, known int) (voters int, ok bool) {
	etcd, err := client.NewEtcd(access, node)
	if err != nil {
		return 0, false
	}
	defer etcd.Close()
	soon, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	list, err := etcd.MemberList(soon)
	if err != nil {
		return 0, false
	}
	for _, m := range list.Members {
		if !m.IsLearner {
			voters++
		}
	}
	if voters < known {
		if added, err := etcd.MemberAdd(soon, []string{peer}); err == nil {
			client.Pause(ctx, 2*time.Second)
			later, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_, _ = etcd.MemberRemove(later, added.Member.ID)
		}
	}
	return voters, true
}
