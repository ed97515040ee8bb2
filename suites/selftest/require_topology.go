package selftest

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// Steps of the catalogue's scenario steady.
const (
	steadyReady  = 1
	steadyCross  = 2
	steadyOthers = 4
	steadyLast   = 10
)

// topologyPlants are those about the static cluster (TOP), and about the certificates that
// clients check.
func topologyPlants() []Plant {
	return []Plant{
		{Name: "member-reads-the-past", Violation: "the etcd member of one node serves linearizable reads from 20 revisions ago",
			Cluster: proxied, Scenario: "catalogue/steady", From: steadyCross, May: []string{"etcd-linearizable"},
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.OldRange, Prefix: "/holdfast/cross/", By: 20}, 2)},
			Catches: []Catch{{Requirement: "HA-TOP-001", Says: "must be read through every other"}}},
		{Name: "one-not-ready", Violation: "an API server that answers /readyz with 503, once",
			Cluster: proxied, Scenario: "catalogue/steady", From: steadyReady,
			Tamper:  []Tampering{api(tamper.Rule{Mode: tamper.Unavailable, Prefix: "/readyz", Times: 1}, 3)},
			Catches: []Catch{{Requirement: "HA-TOP-002", Says: "/readyz does not answer ok through node-3"}}},
		{Name: "balancer-misses-one", Violation: "a balancer that cannot reach one API server",
			Cluster: proxied, Scenario: "catalogue/steady", From: steadyLast, Do: cut(toSecond, 30*time.Second),
			Catches: []Catch{{Requirement: "HA-TOP-002", Says: "the load balancer does not forward to the API server on node-2"}}},
		{Name: "older-apiserver", Violation: "an API server that reports a version two minor versions older than the others",
			Cluster: proxied, Scenario: "catalogue/steady", From: steadyOthers,
			Tamper:  []Tampering{api(tamper.Rule{Mode: tamper.OlderVersion, Prefix: "/version", By: 2}, 2)},
			Catches: both("HA-TOP-004", "version-skew", "must be at most one minor version apart")},
		{Name: "older-kubelet", Violation: "a kubelet five minor versions older than the API servers",
			Cluster: proxied, Scenario: "catalogue/steady", From: steadyOthers, Do: olderKubelet,
			Catches: []Catch{{Requirement: "HA-TOP-004", Says: "A component of a node may be at most 3 minor versions older than an API server: kubelet"},
				{Judge: "version-skew", Says: "kubelet"}}, May: []string{"steady-state"}},
		{Name: "hour-long-lease", Violation: "kube-scheduler --leader-elect-lease-duration=1h",
			Cluster: sluggish, Twin: proxied, Scenario: "catalogue/steady",
			Catches: both("HA-TOP-005", "time-settings", "the lease duration of kube-scheduler 1h0m0s is more than 1m0s")},
		{Name: "another-token-key", Violation: "an API server that signs and checks the tokens of service accounts with a key of its own",
			Cluster: otherKey, Twin: proxied, Scenario: "catalogue/steady",
			Catches: []Catch{{Requirement: "HA-SEC-006", Says: "must be accepted by every other one"},
				{Judge: "tokens-accepted", Says: "Unauthorized"}}},
		{Name: "entangled", Violation: "an API server whose etcd is on the first node, and a scheduler whose API server is there",
			Cluster: entangled, Twin: scaled, Scenario: "catalogue/node-lost",
			Catches: []Catch{{Requirement: "HA-TOP-006", Says: "the API server on node-3 acknowledged no write"},
				{Judge: "no-hidden-dependency", Says: "kube-scheduler on node-2 had no request about its lease answered"}}},
		{Name: "crowded-and-nameless", Violation: "two of three nodes in one fault domain, and an API server whose certificate lacks the balancer's name",
			Cluster: crowded, Scenario: "catalogue/steady", Do: withoutBalancerName,
			Catches: slices.Concat(
				both("HA-TOP-003", "fault-domains", "2 of 3 voting members"),
				both("HA-CL-009", "certificates", "through node-2 it is not valid for api."))},
	}
}

// olderKubelet adds a Node whose kubelet reports an old version, for 10 s.
func olderKubelet(ctx context.Context, c framework.Cluster) error {
	const node = "/api/v1/nodes/from-the-past"
	// kwok leaves Nodes of the control plane alone, unless it is started for them.
	err := ask(ctx, c, client.Request{Method: http.MethodPost, Path: path.Dir(node), Type: "application/json",
		Body: fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": %q, "labels": {"node-role.kubernetes.io/control-plane": ""}}}`, path.Base(node))})
	if err != nil {
		return err
	}
	go func() {
		client.Pause(ctx, 10*time.Second)
		_ = ask(context.WithoutCancel(ctx), c, client.Request{Method: http.MethodDelete, Path: node})
	}()
	return ask(ctx, c, client.Request{Method: http.MethodPatch, Path: node + "/status", Type: "application/merge-patch+json",
		Body: []byte(`{"status": {"nodeInfo": {"kubeletVersion": "v1.32.0"}}}`)})
}

// zoned returns the default cluster, in these fault domains.
func zoned(zones ...string) *clusters.Cluster {
	c := with(nil)
	for i, zone := range zones {
		c.Spec.Nodes[i].Zone = zone
	}
	return c
}

// withoutBalancerName makes the API server of the second node serve with a certificate without
// the balancer's name, until the end of the scenario.
func withoutBalancerName(ctx context.Context, c framework.Cluster) error {
	n := c.Nodes()[1]
	f, ok := n.(framework.CertificateFaulter)
	if !ok {
		return fmt.Errorf("no certificate of %s can be replaced", n.Name())
	}
	return f.SpoilCertificates(ctx, framework.APIServer, framework.CertificateNoBalancerName, 25*time.Second)
}

// toSecond returns the path of the load balancer to the second node.
func toSecond(c framework.Cluster) []framework.Link { return fromBalancer(c)[1:2] }
