package selftest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// componentPlants are those about components, the addresses of the API servers
// and the state of etcd's members.
func componentPlants() []Plant {
	return []Plant{
		{Name: "lease-runs-out", Violation: "an API server that runs but cannot renew its endpoint lease",
			Cluster: proxied, Scenario: "apiservers-up", From: 1,
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: "/registry/masterleases/"}, 2)},
			Catches: []Catch{{Judge: "endpoints-stable", Says: "must not change"}}},
		{Name: "no-addresses", Violation: "API servers that show the default kubernetes service without any address",
			Cluster: proxied, Scenario: "apiservers-listed", From: 1, Until: 2,
			Tamper: []Tampering{api(tamper.Rule{Mode: tamper.NoAddresses, Prefix: "/api/v1/namespaces/default/endpoints"}),
				api(tamper.Rule{Mode: tamper.NoAddresses, Prefix: "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"})},
			Catches: []Catch{{Judge: "endpoints-never-empty", Says: "must never be without an address"}}},
		{Name: "one-hash-off", Violation: "an etcd member whose data has a different hash",
			Cluster: proxied, Scenario: "traffic",
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.WrongHash}, 2)},
			Catches: []Catch{{Judge: "etcd-hashes", Says: "must have the same data"}}},
		{Name: "alarm", Violation: "an etcd member with a corruption alarm",
			Cluster: proxied, Scenario: "traffic", Until: 1,
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.FalseAlarm}, 2)},
			Catches: []Catch{{Judge: "etcd-alarms", Says: "CORRUPT"}}},
		{Name: "ends-by-itself", Violation: "a scheduler that is killed, unknown to the record",
			Cluster: proxied, Scenario: "traffic", Do: killed(3, framework.Scheduler, 0),
			Catches: []Catch{{Judge: "restarts", Says: "kube-scheduler on node-3"}}},
		{Name: "does-not-stay-up", Violation: "a scheduler that keeps exiting after it was killed",
			Cluster: proxied, Scenario: "scheduler-killed", From: 2, Do: loopScheduler,
			Catches: []Catch{{Judge: "restarted", Says: "kube-scheduler on node-3"}}},
		{Name: "all-act", Violation: "kube-controller-manager --leader-elect=false on every node",
			Cluster: unelected, Scenario: "namespaces",
			Catches: []Catch{{Judge: "one-actor", Says: "kube-controller-manager"}}},
	}
}

// loopScheduler makes the scheduler of the last node exit soon after each start, for longer than
// a scenario needs to see it.
func loopScheduler(ctx context.Context, c framework.Cluster) error {
	nodes := c.Nodes()
	last := nodes[len(nodes)-1]
	l, ok := last.(framework.CrashLooper)
	if !ok {
		return fmt.Errorf("no component of %s can be put in a crash loop", last.Name())
	}
	return crashLoop(ctx, l, framework.Scheduler, 10*time.Second)
}

// crashLoop makes a component exit soon after each start, once it runs: it was just killed, and a
// crash loop needs a running component.
func crashLoop(ctx context.Context, l framework.CrashLooper, c framework.Component, lasting time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return client.Until(ctx, 20*time.Millisecond, func(ctx context.Context) error { return l.CrashLoop(ctx, c, 500*time.Millisecond, lasting) })
}

// makeNamespaces creates a namespace every half second, each of which gives the controller
// manager immediate work.
func makeNamespaces(ctx context.Context, c framework.Cluster, _ *record.Writer) error {
	entrance := c.Entrances()[0]
	api, err := client.NewAPI(entrance.Config, client.Options{})
	if err != nil {
		return err
	}
	defer api.Close()
	suffix := time.Now().UnixNano()
	for i := range 24 {
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"selftest-%d-%d"}}`, suffix, i)
		a := api.Do(ctx, client.Request{Method: http.MethodPost, Path: "/api/v1/namespaces", Body: []byte(body)})
		if a.Outcome() != record.OK {
			return fmt.Errorf("failed to make a namespace through %s: %s", entrance.Name, a.Problem())
		}
		if !client.Pause(ctx, 500*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}
