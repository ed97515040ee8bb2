package workload

import (
	"context"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// Expiry records until when the certificate of each component is valid, if a node reports its
// serving endpoint. The operations have the purpose "expiry", component and endpoint as their
// key, such as "etcd/peer", and the end of validity, in RFC 3339, as their value.
func Expiry(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	return lookAtCertificates(ctx, c, w, "expiry", func(chain []*x509.Certificate) string {
		end := chain[0].NotAfter
		for _, cert := range chain[1:] {
			if cert.NotAfter.Before(end) {
				end = cert.NotAfter
			}
		}
		return end.UTC().Format(time.RFC3339)
	})
}

// lookAtCertificates records with a purpose what value returns for the certificates on each port
// on which a component serves.
func lookAtCertificates(ctx context.Context, c framework.Cluster, w *record.Writer, purpose string, value func([]*x509.Certificate) string) error {
	var all sync.WaitGroup
	defer all.Wait()
	for _, n := range c.Nodes() {
		lister, ok := n.(framework.EndpointLister)
		if !ok {
			return fmt.Errorf("failed to read certificates: node %s does not report where its components serve", n.Name())
		}
		for _, component := range n.Components() {
			endpoints, err := lister.ServingEndpoints(component)
			if err != nil {
				continue // it serves nothing
			}
			for _, e := range endpoints {
				all.Go(func() {
					lookAt(ctx, record.Op{Client: purpose, Entrance: n.Name(), API: "kubernetes", Type: record.OpGet, Key: string(component) + "/" + e.Name, Purpose: purpose}, e, w, value)
				})
			}
		}
	}
	all.Wait()
	return w.Err()
}

// lookAt checks one certificate, and retries if the handshake failed.
func lookAt(ctx context.Context, op record.Op, e framework.ServingEndpoint, w *record.Writer, value func([]*x509.Certificate) string) {
	untilKnown(ctx, op, w, func(op *record.Op) {
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		chain, err := e.Chain(ctx)
		if err != nil {
			op.Outcome, op.Error = record.Unknown, client.Shorten(err.Error())
			return
		}
		op.Outcome, op.Found, op.Value = record.OK, true, value(chain)
	})
}
