package workload

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// lookAtEtcdClients records which clients each etcd member accepts on each of its ports: those of
// each CA of etcd.
func lookAtEtcdClients(ctx context.Context, c framework.Cluster, replacer framework.CARotator, w *record.Writer) error {
	clients, err := replacer.EtcdCAClients()
	if err != nil {
		return err
	}
	for _, n := range framework.NodesWith(c, framework.Etcd) {
		lister, ok := n.(framework.EndpointLister)
		if !ok {
			return fmt.Errorf("node %s does not report where etcd serves", n.Name())
		}
		endpoints, err := lister.ServingEndpoints(framework.Etcd)
		if err != nil {
			return err
		}
		for _, e := range endpoints {
			for _, ca := range slices.Sorted(maps.Keys(clients)) {
				pair, err := tls.X509KeyPair(clients[ca].CertData, clients[ca].KeyData)
				if err != nil {
					return fmt.Errorf("certificate of %s: %w", ca, err)
				}
				op := trustOp("etcd-" + e.Name + "/" + ca)
				op.Entrance, op.API, op.Type = n.Name(), apiEtcd, record.OpGet
				askMember(ctx, op, e, pair, w)
			}
		}
	}
	return w.Err()
}

// askMember makes one request to a port of a member and records it in op, and retries if it had no
// answer. Only a TLS alert is a refusal: a member that is about to exit closes connections, too.
func askMember(ctx context.Context, op record.Op, e framework.ServingEndpoint, pair tls.Certificate, w *record.Writer) {
	// Whether the member is to be trusted is not the question here.
	config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}
	u := unknownClient{ServingEndpoint: e, kind: "known", tls: config}
	reads := etcdReads(e.Name)
	if len(reads) == 0 {
		return
	}
	untilKnown(ctx, op, w, func(op *record.Op) {
		outcome, _, err := u.ask(ctx, reads[len(reads)-1])
		op.Outcome, op.Found = outcome, outcome == record.OK
		if err != nil {
			op.Error = client.Shorten(err.Error())
		}
		switch {
		case outcome == record.Refused && tlsAlert(err):
			op.Value = "TLS alert"
		case outcome == record.Refused:
			op.Outcome = record.Unknown
		}
	})
}

// proxiedUser is the user on whose behalf front proxies make requests.
const proxiedUser = "holdfast-proxied"

// lookAtFrontProxies records which front proxies each API server believes: those of each CA.
func lookAtFrontProxies(ctx context.Context, servers []framework.Entrance, replacer framework.CARotator, w *record.Writer) error {
	proxies, err := replacer.FrontProxies()
	if err != nil {
		return err
	}
	for _, e := range servers {
		for _, ca := range slices.Sorted(maps.Keys(proxies)) {
			config := rest.AnonymousClientConfig(e.Config)
			config.CertData, config.KeyData = proxies[ca].CertData, proxies[ca].KeyData
			config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return onBehalf{rt} })
			askWho(ctx, e, config, trustOp("front-proxy/"+ca), w)
		}
	}
	return w.Err()
}

type onBehalf struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o onBehalf) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Remote-User", proxiedUser)
	return o.RoundTripper.RoundTrip(r)
}

// WrappedRoundTripper lets the client close its connections.
func (o onBehalf) WrappedRoundTripper() http.RoundTripper { return o.RoundTripper }
