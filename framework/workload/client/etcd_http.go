package client

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
)

// EtcdHTTP returns a client for what the etcd member on a node serves over HTTP, such as its metrics,
// and the URL of the member. Close its idle connections at the end.
func EtcdHTTP(access framework.EtcdAccess, node string) (c *http.Client, url string, err error) {
	config, err := access.EtcdConfig(node)
	if err != nil {
		return nil, "", err
	}
	if len(config.Endpoints) == 0 {
		return nil, "", fmt.Errorf("etcd on %s has no address", node)
	}
	if url = config.Endpoints[0]; !strings.Contains(url, "://") {
		url = "http://" + url
	}
	t := &http.Transport{TLSClientConfig: config.TLS}
	tunnel, ok := access.(framework.EtcdTunnel)
	if !ok {
		return &http.Client{Transport: t}, url, nil
	}
	t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return tunnel.DialEtcd(ctx, node) }
	two := t.Clone()
	two.Protocols = new(http.Protocols)
	two.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: tunnelled{two, t}}, url, nil
}

// tunnelled sends requests to a member through a tunnel, by HTTP/2. A member without TLS takes that for
// gRPC, refuses it, and serves HTTP/1.1 (cmux in go.etcd.io/etcd/server/v3/embed/serve.go).
type tunnelled struct{ two, one *http.Transport }

func (t tunnelled) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.two.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusUnsupportedMediaType {
		return resp, err
	}
	resp.Body.Close()
	return t.one.RoundTrip(r)
}

func (t tunnelled) CloseIdleConnections() {
	t.two.CloseIdleConnections()
	t.one.CloseIdleConnections()
}
