package selftest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// trusting has an etcd member whose client port requires no certificate.
	trusting = "trusting"
	// trustingGRPC has one whose client port has no HTTP API either.
	trustingGRPC = "trusting-grpc"
	// plaintextPort has an etcd member that serves in plaintext on a second port.
	plaintextPort = "plaintext-port"
	// autoTLS has etcd members that generate their own peer certificates.
	autoTLS = "auto-tls"
	// opened is healthy, for a ClusterRoleBinding that stays.
	opened = "opened"
	// watched is the same, for one that lets clients watch alone.
	watched = "watched"
)

func trustKinds() map[string]kind {
	return map[string]kind{
		trusting: {onNode(with(nil), 1, clusters.ExtraArgs{framework.Etcd: {"client-cert-auth": "false", "trusted-ca-file": ""}}), false},
		trustingGRPC: {onNode(with(nil), 1, clusters.ExtraArgs{framework.Etcd: {"client-cert-auth": "false", "trusted-ca-file": "",
			"listen-client-http-urls": "http://127.0.0.1:2382"}}), false},
		plaintextPort: {onNode(with(nil), 1, clusters.ExtraArgs{framework.Etcd: {"listen-client-urls": "https://0.0.0.0:2379,http://0.0.0.0:4001"}}), false},
		opened:        {with(nil), false},
		watched:       {with(nil), false},
		autoTLS: {with(clusters.ExtraArgs{framework.Etcd: {"peer-auto-tls": "true", "peer-client-cert-auth": "false",
			"peer-trusted-ca-file": "", "peer-cert-file": "", "peer-key-file": ""}}), false},
	}
}

// trustPlants are those about who may read what (SEC).
func trustPlants() []Plant {
	return []Plant{
		{Name: "trusting-etcd", Violation: "an etcd member without --client-cert-auth and --trusted-ca-file",
			Cluster: trusting, Scenario: "catalogue/steady",
			Catches: both("HA-SEC-001", "etcd-authenticates", "the client port on node-2 served data to a client without a certificate")},
		{Name: "trusting-etcd-grpc", Violation: "an etcd member without --client-cert-auth whose client port serves gRPC alone, with --listen-client-http-urls",
			Cluster: trustingGRPC, Scenario: "catalogue/steady",
			Catches: both("HA-SEC-001", "etcd-authenticates", "the client port on node-2 served data to a client without a certificate")},
		{Name: "plaintext-port", Violation: "an etcd member that serves clients in plaintext on a second port",
			Cluster: plaintextPort, Scenario: "catalogue/steady",
			Catches: both("HA-SEC-001", "etcd-authenticates", "the client port on node-2 served data to a client without TLS")},
		{Name: "peers-of-anybody", Violation: "etcd --peer-auto-tls, without --peer-client-cert-auth",
			Cluster: autoTLS, Scenario: "catalogue/steady",
			Catches: []Catch{{Requirement: "HA-SEC-002", Says: "served data to a client without a certificate (GET /members"}}},
		{Name: "open-to-anonymous", Violation: "a ClusterRoleBinding of the role view to system:anonymous",
			Cluster: opened, Scenario: "catalogue/steady", Do: bindToAnonymous("view"),
			Catches: both("HA-SEC-003", "unknown-reads-nothing", "to a client without credentials")},
		{Name: "watched-by-anonymous", Violation: "a ClusterRole that lets system:anonymous watch ConfigMaps, not list them: only OpenAPI names the path",
			Cluster: watched, Scenario: "catalogue/steady", Do: letAnonymousWatch,
			Catches: both("HA-SEC-003", "unknown-reads-nothing", "served /api/v1/watch/configmaps to a client without credentials")},
		{Name: "expired-unseen", Violation: "an API server with a certificate that has expired, unknown to the record",
			Cluster: growing, Twin: growing, Scenario: "catalogue/certificate-expired", From: 1, Do: expire,
			Catches: both("HA-SEC-005", "certificates-last", "that of kube-apiserver/https on node-3"), May: []string{"steady-state"}},
		{Name: "ca-replaced-at-once", Violation: "an API server receives a new CA instead of the old one, without a period of trusting both",
			Cluster: growing, Twin: growing, Scenario: "catalogue/certificates-rotated", From: 3, Do: replaceCA,
			Catches: both("HA-SEC-004", "certificates-rotated", "A CA must be trusted everywhere before"), May: []string{"steady-state", "restarts"}},
		{Name: "no-way-in-while-rotating", Violation: "a load balancer that repeatedly loses every API server for 10 s while certificates are replaced",
			Cluster: growing, Twin: growing, Scenario: "catalogue/certificates-rotated", From: 3, Do: cutBalancer(),
			Catches: []Catch{{Requirement: "HA-SEC-004", Says: "must not go without a successful request"}}, May: []string{"steady-state", "watch-alive"}},
		{Name: "token-key-dropped", Violation: "an API server loses the old key of service accounts while tokens that it signed are valid",
			Cluster: growing, Twin: growing, Scenario: "catalogue/ca-replaced", From: 19, Do: dropTokenKey,
			Catches: both("HA-SEC-004", "certificates-rotated", "refused one that was issued before the first change"), May: []string{"steady-state", "restarts"}},
	}
}

// dropTokenKey makes the last API server forget the old key of service accounts.
func dropTokenKey(ctx context.Context, c framework.Cluster) error {
	dropper, ok := c.(interface {
		DropTokenKey(ctx context.Context, name string) error
	})
	if !ok {
		return errors.New("no key of service accounts can be dropped in the cluster")
	}
	return dropper.DropTokenKey(ctx, c.Nodes()[2].Name())
}

// replaceCA makes the last API server use and trust only the new CA.
func replaceCA(ctx context.Context, c framework.Cluster) error {
	replacer, ok := c.(interface {
		ReplaceCA(ctx context.Context, name string) error
	})
	if !ok {
		return errors.New("the CA of the cluster cannot be replaced in one step")
	}
	return replacer.ReplaceCA(ctx, c.Nodes()[2].Name())
}

// expire makes the certificate of the last API server expire for some seconds.
func expire(ctx context.Context, c framework.Cluster) error {
	t, err := fault.Resolve(ctx, c, "apiserver/3")
	if err == nil {
		_, err = fault.CertExpired.Inject(ctx, c, t, fault.Params{TTL: 5 * time.Second})
	}
	return err
}

// letAnonymousWatch lets clients without credentials watch ConfigMaps.
func letAnonymousWatch(ctx context.Context, c framework.Cluster) error {
	err := ask(ctx, c, client.Request{Method: http.MethodPost, Path: "/apis/rbac.authorization.k8s.io/v1/clusterroles", Body: []byte(`{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "selftest-watcher"},
		"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["watch"]}]}`)})
	if err != nil {
		return err
	}
	return bindToAnonymous("selftest-watcher")(ctx, c)
}

// bindToAnonymous gives clients without credentials the rights of a ClusterRole.
func bindToAnonymous(role string) func(context.Context, framework.Cluster) error {
	return func(ctx context.Context, c framework.Cluster) error {
		return ask(ctx, c, client.Request{Method: http.MethodPost, Path: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", Body: fmt.Appendf(nil, `{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "selftest-anonymous"},
			"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": %q},
			"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"}]}`, role)})
	}
}
