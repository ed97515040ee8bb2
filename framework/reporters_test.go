package framework

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"testing"
)

// An endpoint shows the certificate that it serves, and whether that verifies.
func TestServingEndpoint(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	known := x509.NewCertPool()
	known.AddCert(server.Certificate())
	at := server.Listener.Addr().String()
	for name, tc := range map[string]struct {
		tls      *tls.Config
		verifies bool
	}{
		"for its address":  {&tls.Config{RootCAs: known}, true},
		"for a name":       {&tls.Config{RootCAs: known, ServerName: "example.com"}, true},
		"for another name": {&tls.Config{RootCAs: known, ServerName: "kubernetes"}, false},
		"of an unknown CA": {&tls.Config{RootCAs: x509.NewCertPool()}, false},
	} {
		e := ServingEndpoint{Name: "https", Address: at, TLS: tc.tls}
		if chain, err := e.Chain(t.Context()); err != nil || !chain[0].Equal(server.Certificate()) {
			t.Errorf("%s: %v", name, err)
		}
		chain, err := e.VerifiedChain(t.Context())
		if (err == nil) != tc.verifies || err == nil && !chain[0].Equal(server.Certificate()) {
			t.Errorf("%s, verified: %v", name, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (ServingEndpoint{Address: at, TLS: &tls.Config{}}).VerifiedChain(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
