package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// The kinds of clusters with changing nodes. A scenario that follows on one finds other names
// than on a new one, so only these scenarios share them.
const (
	// growing is healthy.
	growing = "growing"
	// numbered has API servers that expect three of them.
	numbered = "numbered"
	// unlearnt has API servers that do not list themselves.
	unlearnt = "unlearnt"
	// registered has control-plane nodes that are registered as Nodes, and small times.
	registered = "registered"
	// hooked, unheard and unbinding are the same, each for a webhook that stays.
	hooked, unheard, unbinding = "hooked", "unheard-nodes", "unbinding"
)

func nodeKinds() map[string]kind {
	reconciler := func(args map[string]string) kind {
		return kind{with(clusters.ExtraArgs{framework.APIServer: args}), false}
	}
	return map[string]kind{
		registered: {scaledTime(nil), true},
		hooked:     {scaledTime(nil), false},
		unheard:    {scaledTime(nil), false},
		unbinding:  {scaledTime(nil), false},
		growing:    {with(nil), false},
		numbered:   reconciler(map[string]string{"endpoint-reconciler-type": "master-count", "apiserver-count": "3"}),
		unlearnt:   reconciler(map[string]string{"endpoint-reconciler-type": "none"}),
	}
}

// nodePlants are those for requirements on nodes that join and leave.
func nodePlants() []Plant {
	follow := func(says string) []Catch {
		return []Catch{
			{Judge: "endpoints-follow", Says: says},
			{Requirement: "HA-EP-008", Says: says},
			{Requirement: "HA-EP-009", Says: says},
		}
	}
	return []Plant{
		{Name: "count-configured", Violation: "kube-apiserver --endpoint-reconciler-type=master-count --apiserver-count=3",
			Cluster: numbered, Twin: growing, Scenario: "catalogue/nodes-scaled",
			Catches: follow("must hold exactly the API servers"), May: []string{"endpoints-never-empty", "learns-addresses"}},
		{Name: "nodes-not-listed", Violation: "kube-apiserver --endpoint-reconciler-type=none, nodes that change",
			Cluster: unlearnt, Twin: growing, Scenario: "catalogue/nodes-scaled",
			Catches: follow("still held []"), May: []string{"learns-addresses", "endpoints-never-empty"}},
		{Name: "nothing-to-learn", Violation: "kube-apiserver --endpoint-reconciler-type=none, a client that knows the first addresses",
			Cluster: unlearnt, Twin: growing, Scenario: "catalogue/addresses-learnt",
			Catches: both("HA-CL-002", "learns-addresses", "must learn new ones from the kubernetes service")},
		{Name: "dark-for-good", Violation: "no standby controller manager can write its lease once the node of the active one has lost power",
			Cluster: registered, Twin: registered, Scenario: "catalogue/active-node-power-lost", From: 1,
			Tamper: []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: "/registry/leases/kube-system/kube-controller-manager"})},
			Catches: []Catch{
				{Requirement: "HA-LE-013", Says: "must take over within"},
				{Requirement: "HA-WL-005", Says: "was still ready after"},
			}, May: []string{"steady-state"}},
		{Name: "nodes-never-lost", Violation: "writes to the Nodes of the control plane are refused, so that they stay ready when their heartbeats stop",
			Cluster: registered, Twin: registered, Scenario: "catalogue/active-node-power-lost", From: 1,
			Tamper: []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: "/registry/minions/node-"})},
			Catches: []Catch{
				{Requirement: "HA-WL-005", Says: "was still ready after"},
				{Judge: "node-not-ready", Says: "must turn NotReady within"},
			}},
		{Name: "idle-holder", Violation: "the controller manager that takes over renews its lease, and can write no ReplicaSet",
			Cluster: registered, Twin: registered, Scenario: "catalogue/node-lost", From: 1,
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: "/registry/replicasets/"})},
			Catches: both("HA-LE-014", "holder-works", "and did not act on")},
		{Name: "idle-scheduler", Violation: "the scheduler that takes over renews its lease, and can bind no pod: a webhook that every binding needs hangs",
			Cluster: unbinding, Twin: registered, Scenario: "catalogue/node-lost", From: 1, Do: hookBindings,
			Catches: both("HA-LE-014", "holder-works", "The holder of the lease of kube-scheduler must do the work")},
		{Name: "emptied-on-return", Violation: "a remediation that drains worker nodes once the API servers are back, since they sent no heartbeats",
			Cluster: registered, Twin: registered, Scenario: "catalogue/apiservers-away", From: 6, Do: emptyWorkers,
			Catches: []Catch{{Requirement: "HA-WL-004", Says: "which no client changed, was being deleted"}}},
		{Name: "webhook-on-leases", Violation: "a hanging webhook that also matches leases",
			Cluster: hooked, Twin: registered, Scenario: "catalogue/webhook-hangs", From: 2, Do: hook(everywhere, renewals),
			Catches: []Catch{{Requirement: "HA-LE-015", Says: "none renewed the lease"}},
			May:     []string{"restarts", "steady-state"}},
		{Name: "webhook-on-heartbeats", Violation: "a hanging webhook that also matches the heartbeats of nodes",
			Cluster: unheard, Twin: registered, Scenario: "catalogue/webhook-hangs", From: 2, Do: hook(heartbeats, renewals),
			Catches: []Catch{{Requirement: "HA-LE-015", Says: "Heartbeats of worker nodes must arrive"}},
			May:     []string{"steady-state"}},
	}
}

// ask sends a request to a cluster.
func ask(ctx context.Context, c framework.Cluster, r client.Request) error {
	api, err := client.NewAPI(c.Entrances()[0].Config, client.Options{})
	if err != nil {
		return err
	}
	defer api.Close()
	if a := api.Do(ctx, r); a.Outcome() != record.OK {
		return fmt.Errorf("%s %s: %s", r.Method, r.Path, a.Problem())
	}
	return nil
}

// emptyWorkers adds a taint to the worker nodes that no pod tolerates.
func emptyWorkers(ctx context.Context, c framework.Cluster) (err error) {
	for _, node := range []string{"worker-1", "worker-2"} {
		err = errors.Join(err, ask(ctx, c, client.Request{Method: http.MethodPatch, Path: "/api/v1/nodes/" + node,
			Type: "application/strategic-merge-patch+json",
			Body: []byte(`{"spec": {"taints": [{"key": "selftest.holdfast.dev/remediated", "effect": "NoExecute"}]}}`)}))
	}
	return err
}

const (
	// everywhere and heartbeats are namespaces that a webhook can be for.
	everywhere = `{}`
	heartbeats = `{"matchLabels": {"kubernetes.io/metadata.name": "kube-node-lease"}}`
	// renewals and bindings are requests that it can block.
	renewals = `{"operations": ["UPDATE"], "apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"], "resources": ["leases"]}`
	bindings = `{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/binding"]}`
)

// hook registers a webhook with no reachable endpoint, which blocks requests in namespaces.
func hook(namespaces, requests string) func(context.Context, framework.Cluster) error {
	return func(ctx context.Context, c framework.Cluster) error {
		return ask(ctx, c, client.Request{Method: http.MethodPost, Path: "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", Body: fmt.Appendf(nil, `{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "selftest"},
			"webhooks": [{"name": "hangs.selftest.holdfast.dev", "clientConfig": {"url": "https://10.77.0.250/"}, "timeoutSeconds": 2,
				"failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
				"namespaceSelector": %s, "rules": [%s]}]}`, namespaces, requests)})
	}
}

// hookBindings blocks the binding of pods, once another scheduler has taken the lease over. Earlier,
// the application would stop requesting pods when enough of them wait.
func hookBindings(ctx context.Context, c framework.Cluster) error {
	api, err := client.NewAPI(c.Entrances()[0].Config, client.Options{})
	if err != nil {
		return err
	}
	first := schedulerOf(ctx, api)
	if first == "" {
		api.Close()
		return errors.New("the lease of kube-scheduler has no holder")
	}
	go func() {
		defer api.Close()
		for client.Pause(ctx, 200*time.Millisecond) {
			// If it fails, an API server is being lost: try again.
			if now := schedulerOf(ctx, api); now != "" && now != first && hook(everywhere, bindings)(ctx, c) == nil {
				return
			}
		}
	}()
	return nil
}

// schedulerOf returns the holder of the lease of kube-scheduler; empty if it is not known.
func schedulerOf(ctx context.Context, api *client.API) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var lease struct {
		Spec struct{ HolderIdentity string }
	}
	answer := api.Do(ctx, client.Request{Method: http.MethodGet, Path: "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"})
	if answer.Outcome() != record.OK || json.Unmarshal(answer.Body, &lease) != nil {
		return ""
	}
	return lease.Spec.HolderIdentity
}
