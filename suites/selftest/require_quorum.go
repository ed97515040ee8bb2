package selftest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// onDisks has proxies, and disks that faults can be put on.
const onDisks = "on-disks"

func diskCluster() kind {
	c := with(nil)
	c.Spec.Disk = clusters.DiskFUSE
	return kind{c, true}
}

// probed are the ConfigMaps of the probes, in etcd. No client reads their values, so
// tampering with them breaks only the guarantees that the probes show.
const probed = "/registry/configmaps/holdfast-probes/"

// quorumPlants are those for the requirements on quorum reads and writes.
func quorumPlants() []Plant {
	refused := []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: inEtcd}), etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: probed})}
	lost := []Tampering{etcd(tamper.Rule{Mode: tamper.LostWrite, Prefix: probed})}
	// What else says that a read is old: which of them sees it depends on who reads.
	sessions := []string{"read-your-writes", "monotonic-reads", "revision-order"}
	return []Plant{
		{Name: "old-cross-reads", Violation: "the API server of one node reads the state of 20 revisions ago of what others have just written",
			Cluster: proxied, Scenario: "catalogue/steady", From: 3, Until: 4, May: sessions,
			Tamper: []Tampering{etcd(tamper.Rule{Mode: tamper.OldRange, Prefix: inEtcd + "cross", By: 20}, 3)},
			Catches: []Catch{{Requirement: "HA-QR-001", Says: "must be seen by the next read"},
				{Judge: "linearizable"}}},
		{Name: "reads-without-quorum", Violation: "API servers read etcd without a quorum while a member is isolated",
			Cluster: proxied, Scenario: "catalogue/etcd-member-isolated", From: 2, Until: 8, May: append([]string{"list-semantics"}, sessions...),
			Tamper: []Tampering{etcd(tamper.Rule{Mode: tamper.Serializable, Prefix: inEtcd})},
			Catches: []Catch{{Requirement: "HA-QR-002", Says: "No quorum read may be stale"},
				{Judge: "linearizable"}}},
		{Name: "no-moving-reads", Violation: "API servers that do not answer clients that move, so that the hazard is not shown",
			Cluster: proxied, Scenario: "catalogue/etcd-member-isolated", From: 4, Until: 5,
			Tamper:  []Tampering{api(tamper.Rule{Mode: tamper.Unavailable, Prefix: configs + "/moving"})},
			Catches: []Catch{{Judge: "time-travel", Says: "of a client that moves", Verdict: "inconclusive"}}},
		{Name: "no-writes-without-follower", Violation: "no write succeeds while an etcd follower is down",
			Cluster: proxied, Scenario: "catalogue/etcd-members-killed", From: 1, Until: 5, Tamper: refused,
			Catches: []Catch{{Requirement: "HA-QR-004", Says: "must resume within 2s"}}},
		{Name: "no-writes-without-leader", Violation: "no write succeeds once the etcd leader is gone",
			Cluster: proxied, Scenario: "catalogue/etcd-leader-killed", From: 1, Until: 4, Tamper: refused,
			Catches: []Catch{{Requirement: "HA-QR-005", Says: "must resume within 4s"}}},
		{Name: "old-reads-after-thaw", Violation: "API servers read the state of 40 revisions ago once the old leader is thawed",
			Cluster: proxied, Scenario: "catalogue/etcd-leader-frozen", From: 3, Until: 5, May: sessions,
			Tamper: []Tampering{etcd(tamper.Rule{Mode: tamper.OldRange, Prefix: registers, By: 40})},
			Catches: []Catch{{Requirement: "HA-QR-006", Says: "No quorum read may be stale"},
				{Judge: "no-stale-read", Says: "No quorum read may be stale"}, {Judge: "linearizable"}}},
		{Name: "no-writes-without-mute-leader", Violation: "no write succeeds while no packet of the leader reaches its peers",
			Cluster: proxied, Scenario: "catalogue/etcd-leader-cut-one-way", From: 8, Until: 11, Tamper: refused,
			Catches: []Catch{{Requirement: "HA-QR-007", Says: "must resume within 4s"}}},
		{Name: "minority-acknowledges", Violation: "etcd members that acknowledge writes without a quorum while the network is split",
			Cluster: proxied, Scenario: "catalogue/etcd-leader-split-off", From: 3, Until: 7, Tamper: lost,
			Catches: []Catch{{Requirement: "HA-QR-008", Says: "must acknowledge no write"}, {Requirement: "HA-QR-002", Says: "must acknowledge no write"}}},
		{Name: "acknowledged-without-quorum", Violation: "etcd members that acknowledge writes while two of three are down",
			Cluster: proxied, Scenario: "catalogue/quorum-lost", From: 4, Until: 5, Tamper: lost,
			Catches: []Catch{{Requirement: "HA-QR-009", Says: "no write may be acknowledged"}}},
		{Name: "no-writes-after-handover", Violation: "no write succeeds for seconds when leadership is handed over",
			Cluster: proxied, Scenario: "catalogue/etcd-leader-cut-one-way", From: 1, Until: 3, Tamper: refused,
			Catches: []Catch{{Requirement: "HA-QR-010", Says: "must resume within 1s"}, {Judge: "handover"}}},
		{Name: "slow-commits", Violation: "etcd members that take 400 ms longer for each write than two round trips",
			Cluster: proxied, Scenario: "catalogue/nodes-far-apart", From: 3, Until: 4,
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.LateWrite, Prefix: registers, For: 400 * time.Millisecond})},
			Catches: []Catch{{Requirement: "HA-QR-011", Says: "A write must take at most"}, {Judge: "commit-latency"}}},
		{Name: "election-at-a-distance", Violation: "etcd elects another leader while the nodes are far apart, because its leader is killed",
			Cluster: proxied, Scenario: "catalogue/nodes-far-apart", From: 3, Do: killLeader,
			Catches: []Catch{{Requirement: "HA-QR-011", Says: "must hold no election"}, {Judge: "no-election"}}},
		{Name: "no-writes-with-loss", Violation: "no write succeeds while packets are lost",
			Cluster: proxied, Scenario: "catalogue/packets-lost", From: 3, Until: 4, Tamper: refused,
			Catches: []Catch{{Requirement: "HA-QR-012", Says: "of the writes must succeed"}, {Judge: "writes-succeed"}}},
		{Name: "newest-lists", Violation: "API servers that list the newest state whatever version was asked for, once an etcd follower is down",
			Cluster: proxied, Scenario: "catalogue/etcd-members-killed", From: 1, Until: 5, May: append([]string{"list-snapshot"}, sessions...),
			Tamper: []Tampering{api(tamper.Rule{Mode: tamper.NewestList, Prefix: configs})},
			Catches: []Catch{{Requirement: "HA-QR-013", Says: "A list must be the state of a version that was asked for"},
				{Judge: "list-semantics"}}},
		{Name: "two-winners-each", Violation: "etcd carries out transactions whatever their compares say",
			Cluster: proxied, Scenario: "catalogue/steady", Until: 4, May: append([]string{"linearizable", "list-semantics", "watch-flags", "watch-content", "watch-filter"}, sessions...),
			Tamper: []Tampering{etcd(tamper.Rule{Mode: tamper.NoCompare, Prefix: registers, For: 150 * time.Millisecond})},
			Catches: []Catch{{Requirement: "HA-QR-015", Says: "one must win"},
				{Judge: "one-winner"}}},
		{Name: "lying-disks", Violation: "disks that acknowledge syncs and sync nothing, and then lose power",
			Cluster: onDisks, Twin: onDisks, Scenario: "catalogue/power-lost", Do: lyingDisks,
			May: append([]string{"etcd-linearizable", "no-lost-write", "one-winner", "list-semantics", "list-snapshot", "watch-ordered", "watch-unique", "watch-reliable",
				"watch-resumable", "watch-bookmark", "watch-filter", "watch-compacted", "watch-flags", "watch-content"}, sessions...),
			Catches: []Catch{{Requirement: "HA-QR-016", Says: "must be linearizable"}, {Judge: "linearizable"}}},
		{Name: "no-writes-with-slow-disk", Violation: "no write succeeds while the leader's disk is slow",
			Cluster: onDisks, Twin: onDisks, Scenario: "catalogue/etcd-disk-slow", From: 2, Until: 3, Tamper: refused,
			Catches: []Catch{{Requirement: "HA-QR-017", Says: "of the writes must succeed"}}},
		{Name: "long-pause-with-slow-disk", Violation: "the etcd members are cut off from each other for 6 s while the leader's disk is slow",
			Cluster: onDisks, Twin: onDisks, Scenario: "catalogue/etcd-disk-slow", From: 2, Do: cut(between(2380), 6*time.Second),
			Catches: []Catch{{Requirement: "HA-QR-017", Says: "must resume within"}}, May: []string{"steady-state", "watch-alive"}},
		{Name: "late-without-leader", Violation: "writes that are in flight when the etcd leader is lost take 12 s",
			Cluster: proxied, Scenario: "catalogue/etcd-leader-killed", From: 1, Until: 4,
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.LateWrite, Prefix: inEtcd, For: 12 * time.Second})},
			Catches: both("HA-QR-019", "requests-answered", "must be answered within 9s")},
		{Name: "no-writes-without-next-leader", Violation: "no write succeeds once the next leader is killed, after the network was split and is whole again",
			Cluster: proxied, Scenario: "catalogue/etcd-leader-split-off", From: 8, Until: 11, Tamper: refused,
			Catches: []Catch{{Requirement: "HA-QR-018", Says: "must resume within 4s"}}},
		{Name: "followers-stay-apart", Violation: "the followers stay cut off from each other for 20 s more when the split is healed",
			Cluster: proxied, Scenario: "catalogue/etcd-leader-split-off", From: 7, Do: parted,
			Catches: both("HA-QR-018", "peers-reconnect", "must be connected again within")},
	}
}

// partedTime with the split before it keeps TCP waiting for longer than the bound.
const partedTime = 20 * time.Second

// parted cuts the followers of the etcd leader off from each other.
func parted(ctx context.Context, c framework.Cluster) error {
	leader, err := fault.Resolve(ctx, c, "etcd/leader")
	if err != nil {
		return err
	}
	links := func(c framework.Cluster) []framework.Link {
		return slices.DeleteFunc(between()(c), func(l framework.Link) bool { return l.From == leader.Node || l.To == leader.Node })
	}
	return cut(links, partedTime)(ctx, c)
}

// killLeader kills the etcd member that leads; its watcher starts it again.
func killLeader(ctx context.Context, c framework.Cluster) error {
	leader, err := fault.Resolve(ctx, c, "etcd/leader")
	if err != nil {
		return err
	}
	for _, n := range c.Nodes() {
		if k, ok := n.(framework.Killer); ok && n.Name() == leader.Node {
			return k.Kill(ctx, framework.Etcd, 0)
		}
	}
	return fmt.Errorf("etcd on %s cannot be killed", leader.Node)
}

// lyingTime is for longer than it takes until power is lost.
const lyingTime = 30 * time.Second

// lyingDisks makes the disks of all nodes lie, all at the same time: no member may
// keep what the others have lost.
func lyingDisks(ctx context.Context, c framework.Cluster) error {
	return framework.Each(c.Nodes(), func(n framework.Node) error {
		d, ok := n.(framework.DiskFaulter)
		if !ok {
			return fmt.Errorf("the disk of %s does not support faults (disk: fuse)", n.Name())
		}
		if _, err := d.FaultDisk(ctx, framework.DiskFault{Lie: true}, lyingTime); err != nil {
			return fmt.Errorf("failed to make a disk lie: %w", err)
		}
		return nil
	})
}
