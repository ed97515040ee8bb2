package workload

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// untrusted is the value of a request that the client did not make, since it does not trust
// the server's certificate.
const untrusted = "Untrusted"

// Trust checks which clients and CAs the components trust while certificates and CAs are
// replaced. The zero value is ready for use.
type Trust struct {
	account string // the path of a service account
	first   string // a token for it from the first look
	forged  string // the same, signed by a key that no API server ever trusted
}

// Look records which certificate each component serves on each port, and which clients each API
// server accepts.
//
// The first have the purpose "served", component and port as their key, and as their value the
// certificate's serial number and the name of its CA. The others have the purpose "trust" and
// CLIENT/CA as their key, and as their value the reason of a refusal. Client "certificate" has
// one from that CA and trusts every CA; client "alone" trusts only that CA, and its value is
// "Untrusted" if it gave up for that reason. Client "token" has a token that the API server after
// the slash has just issued, or that was issued at the first look ("first"), or a copy of that one
// with the signature of a key that was never trusted ("forged"); its value is the user that the
// API server takes it for. The key "issue" is of the issue of a token through an API server.
//
// If the CAs can be replaced, clients "etcd-client" and "etcd-peer" have a certificate from that CA
// of etcd and read from that port of the node's member; the value of a refusal is "TLS alert".
// Client "front-proxy" has one from that CA of front proxies and makes a request on behalf of a
// user; the value is the user.
func (t *Trust) Look(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	err := lookAtCertificates(ctx, c, w, "served", func(chain []*x509.Certificate) string {
		return fmt.Sprintf("%x %s", chain[0].SerialNumber, chain[0].Issuer.CommonName)
	})
	rotator, ok := c.(framework.CertificateRotator)
	if err != nil || !ok {
		return err
	}
	clients, err := rotator.CAClients()
	if err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	servers := apiServers(c.Entrances())
	body := mustJSON(map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
	accepted := func([]byte) string { return "accepted" }
	for _, e := range servers {
		for _, ca := range slices.Sorted(maps.Keys(clients)) {
			config := rest.AnonymousClientConfig(e.Config)
			config.CertData, config.KeyData = clients[ca].CertData, clients[ca].KeyData
			lookOp(ctx, e, config, whoAmI, body, trustOp("certificate/"+ca), w, accepted)
			alone := rest.CopyConfig(config)
			alone.CAData = clients[ca].CAData
			lookOp(ctx, e, alone, whoAmI, body, trustOp("alone/"+ca), w, accepted)
		}
	}
	if replacer, ok := c.(framework.CARotator); ok {
		if err := lookAtEtcdClients(ctx, c, replacer, w); err != nil {
			return fmt.Errorf("trust: %w", err)
		}
		if err := lookAtFrontProxies(ctx, servers, replacer, w); err != nil {
			return fmt.Errorf("trust: %w", err)
		}
	}
	return t.tokens(ctx, servers, w)
}

func trustOp(key string) record.Op { return record.Op{Client: "trust", Purpose: "trust", Key: key} }

// tokens has each API server issue a token, and uses each token at every API server, and the very
// first one and its forged copy again.
func (t *Trust) tokens(ctx context.Context, servers []framework.Entrance, w *record.Writer) error {
	if t.account == "" {
		var err error
		if t.account, err = makeAccount(ctx, servers, "trust-"+fresh()); err != nil {
			return fmt.Errorf("trust: %w", err)
		}
	}
	for _, issuer := range servers {
		issued := record.Op{Client: "trust", Purpose: "trust", Key: "issue"}
		token := issueToken(ctx, issuer, t.account+"/token", issued, w)
		t.first = cmp.Or(t.first, token)
		for _, e := range servers {
			if token != "" {
				useToken(ctx, e, token, trustOp("token/"+issuer.Name), w)
			}
		}
	}
	if t.first != "" && t.forged == "" {
		// A token of a kind that cannot be forged here is not tried: the record shows that.
		t.forged, _ = client.ForgeToken(t.first)
	}
	for _, e := range servers {
		if t.first != "" {
			useToken(ctx, e, t.first, trustOp("token/first"), w)
		}
		if t.forged != "" {
			useToken(ctx, e, t.forged, trustOp("token/forged"), w)
		}
	}
	return w.Err()
}
