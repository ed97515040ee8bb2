package selftest

import (
	"context"
	"errors"
	"net"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// unstrict has etcd members that take any other one.
const unstrict = "unstrict"

func memberKinds() map[string]kind {
	return map[string]kind{unstrict: {with(clusters.ExtraArgs{framework.Etcd: {"strict-reconfig-check": "false"}}), false}}
}

// memberPlants are those for requirements on etcd's members.
func memberPlants() []Plant {
	const phantom = "left and 1 have joined"
	const cut = "must not go without a successful request"
	return []Plant{
		{Name: "phantom-member", Violation: "somebody adds a member that nobody runs whenever one was removed, and removes it 2 s later",
			Cluster: growing, Twin: growing, Scenario: "catalogue/nodes-scaled", From: 3, Do: phantomMember,
			Catches: []Catch{
				{Judge: "members-follow", Says: phantom},
				{Requirement: "HA-MB-002", Says: phantom},
				{Requirement: "HA-MB-003", Says: phantom},
				{Requirement: "HA-MB-004", Says: phantom},
				{Requirement: "HA-MB-005", Says: phantom},
			}, May: []string{"steady-state"}},
		{Name: "clients-cut-off", Violation: "clients are cut off from the load balancer for 14 s in each 20 s while members are replaced",
			Cluster: growing, Twin: growing, Scenario: "catalogue/members-replaced", From: 5, Do: cutClients,
			Catches: []Catch{
				{Requirement: "HA-MB-001", Says: cut},
				{Requirement: "HA-MB-008", Says: cut},
				{Requirement: "HA-MB-009", Says: "must see errors for no longer than"},
				{Requirement: "HA-MB-010", Says: cut},
				{Requirement: "HA-MB-011", Says: cut},
			}, May: []string{"steady-state", "watch-alive"}},
		{Name: "any-member-taken", Violation: "etcd --strict-reconfig-check=false",
			Cluster: unstrict, Scenario: "catalogue/etcd-members-killed",
			Catches: []Catch{
				{Judge: "unsafe-member-refused", Says: "must take no further voting member"},
				{Requirement: "HA-MB-007", Says: "must take no further voting member"},
				// It costs the quorum.
				{Requirement: "HA-QR-004", Says: "must resume within"},
			}, May: []string{"steady-state", "restarts", "watch-alive"}},
	}
}

// cutClients cuts clients off from the balancer, again and again, until ctx ends.
func cutClients(ctx context.Context, c framework.Cluster) error {
	return cutAgain(ctx, c, []framework.Link{{From: framework.HarnessHost, To: framework.BalancerHost}}, 14*time.Second, 6*time.Second)
}

// phantomMember adds a voting member that nobody runs as soon as one has left, and removes
// it 2 s later, until ctx ends.
func phantomMember(ctx context.Context, c framework.Cluster) error {
	access, ok := c.(framework.EtcdAccess)
	if !ok {
		return errors.New("nothing gives access to the cluster's etcd members")
	}
	node := c.Nodes()[1]
	peer := "https://" + net.JoinHostPort(node.Address().String(), "2399")
	go func() {
		known := 0
		for client.Pause(ctx, 20*time.Millisecond) {
			etcd, err := client.NewEtcd(access, c.Nodes()[0].Name())
			if err != nil {
				continue
			}
			voters := 0
			if list, err := etcd.MemberList(ctx, clientv3.WithSerializable()); err == nil {
				for _, m := range list.Members {
					if !m.IsLearner {
						voters++
					}
				}
			}
			if voters > 0 && voters < known {
				if added, err := etcd.MemberAdd(ctx, []string{peer}); err == nil {
					client.Pause(ctx, 2*time.Second)
					_, _ = etcd.MemberRemove(context.WithoutCancel(ctx), added.Member.ID)
				}
			}
			if voters > 0 {
				known = voters
			}
			_ = etcd.Close()
		}
	}()
	return nil
}
