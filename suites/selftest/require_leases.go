package selftest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// unledSchedulers has schedulers that are all active.
	unledSchedulers = "unelected-schedulers"
	// steered is proxied, and its controller managers reach their API servers through the
	// proxies.
	steered = "steered"
	// autoscaled is proxied, and its description names the lease of the autoscaler.
	autoscaled = "autoscaled"
	// autoscaler is an elected component that is not the control plane's own.
	autoscaler = "cluster-autoscaler"
)

// leaseKinds are the kinds of clusters for the requirements on elected components.
func leaseKinds(elections map[string]string) map[string]kind {
	scaled := with(clusters.ExtraArgs{framework.ControllerManager: elections, framework.Scheduler: elections})
	scaled.Spec.Leases = map[framework.Component]framework.Election{autoscaler: {LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 500 * time.Millisecond}}
	throughProxy := clusters.ExtraArgs{framework.ControllerManager: {"master": "https://127.0.0.1:16443"}}
	return map[string]kind{
		unledSchedulers: {with(clusters.ExtraArgs{framework.Scheduler: {"leader-elect": "false"}}), false},
		steered:         {with(throughProxy.Merge(clusters.ExtraArgs{framework.ControllerManager: elections, framework.Scheduler: elections})), true},
		autoscaled:      {scaled, true},
	}
}

// leasePlants are those for the requirements on elected components.
func leasePlants() []Plant {
	const (
		stored    = "/registry/leases/kube-system/"
		managers  = "kube-controller-manager"
		scheduler = "kube-scheduler"
	)
	refused := func(lease string) []Tampering {
		return []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: stored + lease})}
	}
	// goesOn makes the active controller manager believe that it holds its lease.
	goesOn := []Tampering{{At: "kcm/active", Site: tamper.API,
		Rule: tamper.Rule{Mode: tamper.ClaimedLease, Prefix: "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + managers}}}
	// Refusing writes to the end leaves the cluster without an active instance.
	neverSteady := []string{"steady-state"}
	return []Plant{
		{Name: "all-schedule", Violation: "kube-scheduler --leader-elect=false on every node",
			Cluster: unledSchedulers, Scenario: "catalogue/steady",
			Catches: []Catch{
				{Requirement: "HA-LE-001", Says: "kube-scheduler must have exactly one active instance"},
				{Judge: "one-actor", Says: "no instance was elected"},
			}},
		{Name: "killed-for-good", Violation: "no standby can write its lease once the active instances are killed",
			Cluster: proxied, Scenario: "catalogue/elected-components-killed", From: 1, May: neverSteady, Tamper: refused("kube-"),
			Catches: []Catch{{Requirement: "HA-LE-002", Says: "none did"}}},
		{Name: "stopped-for-good", Violation: "no standby scheduler can write its lease once the active one is stopped",
			Cluster: proxied, Scenario: "catalogue/elected-components-stopped", From: 2, May: neverSteady, Tamper: refused(scheduler),
			Catches: []Catch{{Requirement: "HA-LE-003", Says: "none did"}}},
		{Name: "thawed-goes-on", Violation: "the active controller manager receives a lease that says it is the holder, even after it was frozen and another took over",
			Cluster: steered, Twin: steered, Scenario: "catalogue/elected-components-frozen", From: 10, May: neverSteady, Tamper: goesOn,
			Catches: []Catch{
				{Requirement: "HA-LE-004", Says: "must stop acting within"},
				{Judge: "one-actor", Says: "kube-controller-manager"},
			}},
		{Name: "isolated-for-good", Violation: "no standby controller manager can write its lease once the active one is isolated",
			Cluster: proxied, Scenario: "catalogue/active-node-isolated", From: 1, May: neverSteady, Tamper: refused(managers),
			Catches: []Catch{
				{Requirement: "HA-LE-005", Says: "none did"},
				{Requirement: "HA-WL-001", Says: "must be in its desired state within"},
			}},
		{Name: "dropped-goes-on", Violation: "the active controller manager receives a lease that says it is the holder, although the lease was stolen",
			Cluster: steered, Twin: steered, Scenario: "catalogue/leases-lost", From: 7, May: neverSteady, Tamper: goesOn,
			Catches: []Catch{
				{Requirement: "HA-LE-006", Says: "must stop acting within"},
				{Judge: "stops-acting", Says: "when holdfast-stranger had its lease"},
				{Judge: "one-actor", Says: "kube-controller-manager"},
			}},
		{Name: "third-for-good", Violation: "no standby scheduler can write its lease once the third active one is killed",
			Cluster: proxied, Scenario: "catalogue/three-leaders-killed", From: 13, May: neverSteady, Tamper: refused(scheduler),
			Catches: []Catch{{Requirement: "HA-LE-007", Says: "none did"}}},
		{Name: "renewal-refused", Violation: "no controller manager can write its lease once the API server of the active one is killed",
			Cluster: proxied, Scenario: "catalogue/active-apiserver-killed", From: 1, May: neverSteady, Tamper: refused(managers),
			Catches: both("HA-LE-010", "active-again", "none renewed the lease")},
		{Name: "autoscaler-for-good", Violation: "no autoscaler can write its lease, which only the description of the cluster names, once an API server is killed",
			Cluster: autoscaled, Twin: autoscaled, Scenario: "catalogue/apiservers-killed-in-turn", From: 4, Tamper: refused(autoscaler),
			Catches: both("HA-LE-010", "active-again", "The lease of cluster-autoscaler must not be without a renewal")},
		{Name: "dark-scheduler-for-good", Violation: "no standby scheduler can write its lease once the node of the active one has lost power",
			Cluster: proxied, Scenario: "catalogue/active-scheduler-power-lost", From: 1, Until: 5, Tamper: refused(scheduler),
			Catches: []Catch{{Requirement: "HA-LE-013", Says: "A standby of kube-scheduler must take over within"}}},
		{Name: "ahead-for-good", Violation: "no standby controller manager can write its lease once the active one, whose clock is ahead, is killed",
			Cluster: proxied, Scenario: "catalogue/clocks-apart", From: 3, May: neverSteady, Tamper: refused(managers),
			Catches: []Catch{{Requirement: "HA-LE-012", Says: "none did"}}},
		{Name: "seized-behind", Violation: "a standby seizes the lease of the controller manager whose clock is behind",
			Cluster: proxied, Scenario: "catalogue/clocks-behind", From: 4, Do: seizeLease,
			Catches: both("HA-LE-012", "active-again", "must not cost a holder its lease"),
			// The former holder acts until it notices, and exits.
			May: []string{"one-actor", "restarts", "takeover"}},
	}
}

// seizeLease makes a standby controller manager the holder of the lease, without its knowledge.
func seizeLease(ctx context.Context, c framework.Cluster) error {
	standby, err := fault.Resolve(ctx, c, "kcm/standby")
	if err != nil {
		return err
	}
	return ask(ctx, c, client.Request{Method: http.MethodPatch, Path: "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager",
		Type: "application/merge-patch+json", Body: fmt.Appendf(nil, `{"spec": {"holderIdentity": "%s_seized"}}`, standby.Node)})
}

// electAutoscalers has an instance of the autoscaler on each node elect itself, until ctx is done,
// if the description of the cluster names its lease.
func electAutoscalers(ctx context.Context, c framework.Cluster, _ *record.Writer) error {
	times, named := c.Settings().Elections[autoscaler]
	if !named {
		return nil
	}
	for _, e := range c.Entrances() {
		if e.Node == "" {
			continue
		}
		config := rest.CopyConfig(e.Config)
		config.Timeout = times.RenewDeadline / 2
		leases, err := coordinationv1.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("failed to create a client of entrance %s: %w", e.Name, err)
		}
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: autoscaler}, Client: leases,
				LockConfig: resourcelock.ResourceLockConfig{Identity: e.Node + "_" + autoscaler}},
			LeaseDuration: times.LeaseDuration, RenewDeadline: times.RenewDeadline, RetryPeriod: times.RetryPeriod,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		})
		if err != nil {
			return fmt.Errorf("failed to elect %s on %s: %w", autoscaler, e.Node, err)
		}
		go func() {
			for ctx.Err() == nil {
				elector.Run(ctx)
			}
		}()
	}
	return nil
}
