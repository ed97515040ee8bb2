package workload

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// Expiry looks until when the certificate of each component is valid, wherever a node tells
// that the component serves. The operations have the purpose "expiry", component and
// endpoint as their key, such as "etcd/peer", and the end of validity, in RFC 3339, as
// their value.
func Expiry(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	var all sync.WaitGroup
	defer all.Wait()
	for _, n := range c.Nodes() {
		lister, ok := n.(framework.EndpointLister)
		if !ok {
			return fmt.Errorf("expiry: node %s does not tell where its components serve", n.Name())
		}
		for _, component := range n.Components() {
			endpoints, err := lister.ServingEndpoints(component)
			if err != nil {
				continue // it serves nothing
			}
			for _, e := range endpoints {
				all.Go(func() { lookExpiry(ctx, n.Name(), string(component)+"/"+e.Name, e, w) })
			}
		}
	}
	all.Wait()
	return w.Err()
}

// lookExpiry looks at one certificate, again where no handshake came about.
func lookExpiry(ctx context.Context, node, key string, e framework.ServingEndpoint, w *record.Writer) {
	for range stepTries {
		op := record.Op{Client: "expiry", Entrance: node, API: "kubernetes", Type: record.OpGet, Key: key, Purpose: "expiry", Call: w.Now(), Outcome: record.OK, Found: true}
		end, err := validUntil(ctx, e)
		if err != nil {
			op.Outcome, op.Found, op.Error = record.Unknown, false, client.Shorten(err.Error())
		} else {
			op.Value = end.UTC().Format(time.RFC3339)
		}
		op.Return = w.Now()
		_ = w.Append(record.KindOp, op)
		if err == nil || !client.Pause(ctx, tokenPause) {
			return
		}
	}
}

// validUntil is when the first certificate of an endpoint's chain expires.
func validUntil(ctx context.Context, e framework.ServingEndpoint) (end time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	dial := e.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conn, err := dial(ctx, "tcp", e.Address)
	if err != nil {
		return end, err
	}
	defer conn.Close()
	config := e.TLS.Clone()
	config.InsecureSkipVerify = true // one that has expired is to be seen, too
	shaken := tls.Client(conn, config)
	if err := shaken.HandshakeContext(ctx); err != nil {
		return end, err
	}
	chain := shaken.ConnectionState().PeerCertificates
	if len(chain) == 0 {
		return end, errors.New("it showed no certificate")
	}
	end = chain[0].NotAfter
	for _, cert := range chain[1:] {
		if cert.NotAfter.Before(end) {
			end = cert.NotAfter
		}
	}
	return end, nil
}
