package selftest

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// smallQuota has databases that soon reach their quota, behind proxies.
	smallQuota = "small-quota"
	// fresh is healthy, and nothing has exited on it before: after an exit, a process watcher may
	// back off. Every run has a cluster of its own.
	fresh = "fresh"
)

func recoveryKinds() map[string]kind {
	return map[string]kind{smallQuota: {topology(smallQuota), true}, fresh: {with(nil), false}}
}

// recoveryPlants are those for requirements on automatic recovery.
func recoveryPlants() []Plant {
	refused := []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: inEtcd}), etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: probed})}
	return []Plant{
		{Name: "ends-once-restarted", Violation: "a scheduler that exits again soon after its process watcher has started it, and stays down",
			Cluster: fresh, Twin: growing, Scenario: "catalogue/components-restarted", From: 30, Do: killed(3, framework.Scheduler, 15*time.Second),
			Catches: []Catch{{Requirement: "HA-RC-001", Says: "kube-scheduler on node-3"}}, May: []string{"restarts"}},
		{Name: "ends-with-its-watcher", Violation: "a controller manager that exits soon after the process watcher of its node was killed",
			Cluster: growing, Twin: growing, Scenario: "catalogue/components-restarted", From: 3, Do: killed(2, framework.ControllerManager, 0),
			Catches: both("HA-RC-002", "components-go-on", "kube-controller-manager on node-2"), May: []string{"restarts"}},
		{Name: "watcher-stays-down", Violation: "a process watcher that nothing starts again for 15 s when it was killed",
			Cluster: fresh, Twin: growing, Scenario: "catalogue/components-restarted", From: 2, Do: killed(2, framework.NodeAgent, 15*time.Second),
			Catches: []Catch{{Requirement: "HA-RC-002", Says: "must be started again within 10s"}}},
		{Name: "back-after-half-a-minute", Violation: "an API server that stays down for 25 s when its node has rebooted",
			Cluster: growing, Twin: growing, Scenario: "catalogue/node-rebooted", From: 2, Do: killed(3, framework.APIServer, 25*time.Second),
			Catches: both("HA-RC-003", "rejoins", "the API server on node-3"), May: []string{"restarts", "steady-state"}},
		{Name: "dark-for-longer", Violation: "an etcd member that stays down for 25 s after power returns to all nodes",
			Cluster: onDisks, Twin: onDisks, Scenario: "catalogue/power-lost", From: 3, Do: meanwhile(killed(2, framework.Etcd, 25*time.Second)),
			Catches: []Catch{{Requirement: "HA-RC-004", Says: "on node-2"}}, May: []string{"restarts", "steady-state"}},
		{Name: "restored-into-the-past", Violation: "etcd is restored a second time, from a snapshot without a higher revision",
			Cluster: growing, Twin: growing, Scenario: "catalogue/etcd-restored", From: 5, Do: rewind,
			Catches: both("HA-RC-005", "restored-from-snapshot", "What is acknowledged after the restore must stay"), May: []string{"restarts", "steady-state", "revision-order", "one-leader-per-term", "one-actor", "etcd-alarms"}},
		{Name: "spoilt-snapshot", Violation: "an etcd snapshot in which one byte is altered",
			Cluster: proxied, Scenario: "catalogue/etcd-members-killed", From: 1, Until: 4, Tamper: []Tampering{etcd(tamper.Rule{Mode: tamper.SpoiltSnapshot})},
			Catches: both("HA-RC-006", "snapshot-verifies", "A snapshot must verify")},
		{Name: "serves-without-data", Violation: "an etcd member without its data that answers as if it were healthy",
			Cluster: onDisks, Twin: onDisks, Scenario: "catalogue/etcd-data-damaged", From: 8, Until: 9, Tamper: []Tampering{etcd(tamper.Rule{Mode: tamper.OldStatus})},
			Catches: both("HA-RC-007", "damage-contained", "must not serve"), May: []string{"one-leader-per-term"}},
		{Name: "no-writes-with-space", Violation: "no write succeeds although the database has space again",
			Cluster: smallQuota, Twin: smallQuota, Scenario: "catalogue/etcd-quota-full", From: 4, Until: 5, Tamper: refused,
			Catches: both("HA-RC-008", "quota-reached", "must continue within 4s")},
		{Name: "no-writes-with-full-disk", Violation: "no write succeeds while the disk of one etcd member is full",
			Cluster: onDisks, Twin: onDisks, Scenario: "catalogue/etcd-data-damaged", From: 12, Until: 13, Tamper: refused,
			Catches: []Catch{{Requirement: "HA-RC-009", Says: "must resume within"}}},
	}
}

// rewind restores etcd from a snapshot that is 2 s old, without raising the revision.
func rewind(ctx context.Context, c framework.Cluster) error {
	p := fault.Params{TTL: time.Minute, Values: map[string]string{"age": "2s", "writes": "10"}}
	t, err := fault.Resolve(ctx, c, "etcd/any")
	if err == nil {
		_, err = fault.RestoreSnapshot.Inject(ctx, c, t, p)
	}
	return err
}

// meanwhile runs do while the timeline continues.
func meanwhile(do func(context.Context, framework.Cluster) error) func(context.Context, framework.Cluster) error {
	return func(ctx context.Context, c framework.Cluster) error {
		go func() { _ = do(ctx, c) }() // if it fails, the planted violation is not found
		return nil
	}
}

// killed kills a component of a node, given by its number, as soon as it runs, and keeps it down
// for a while.
func killed(node int, component framework.Component, hold time.Duration) func(context.Context, framework.Cluster) error {
	return func(ctx context.Context, c framework.Cluster) error {
		n := c.Nodes()[node-1]
		k, ok := n.(framework.Killer)
		if !ok {
			return fmt.Errorf("no component of %s can be killed", n.Name())
		}
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		return client.Until(ctx, 20*time.Millisecond, func(ctx context.Context) error { return k.Kill(ctx, component, hold) })
	}
}
