package client_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

// tunnel gives access to an etcd member through its node alone: nothing listens on its endpoint.
type tunnel struct {
	dial func(context.Context) (net.Conn, error)
}

func (tunnel) EtcdConfig(string) (clientv3.Config, error) {
	return clientv3.Config{Endpoints: []string{"http://127.0.0.1:1"}}, nil
}

func (t tunnel) DialEtcd(ctx context.Context, _ string) (net.Conn, error) { return t.dial(ctx) }

// Metrics are read from a member itself, and through a tunnel that ends with TLS and HTTP/2 or, as of a
// member without TLS, without.
func TestEtcdHTTP(t *testing.T) {
	member := etcdtest.New(t, 1)
	config, err := member.EtcdConfig("node-1")
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(config.Endpoints[0], "http://")
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			fmt.Fprint(w, "etcd_server_has_leader 1\n")
		}
	}))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for name, access := range map[string]framework.EtcdAccess{
		"direct": member,
		"a tunnel to a member without TLS": tunnel{func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}},
		"a tunnel that ends with TLS": tunnel{func(ctx context.Context) (net.Conn, error) {
			config := secure.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
			config.NextProtos = []string{"h2"}
			return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", secure.Listener.Addr().String())
		}},
	} {
		etcd, url, err := client.EtcdHTTP(access, "node-1")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			resp, err := etcd.Get(url + "/metrics")
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !strings.Contains(string(body), "etcd_server_has_leader 1") {
				t.Errorf("%s: status %d, %d bytes, %v", name, resp.StatusCode, len(body), err)
			}
		}
		etcd.CloseIdleConnections()
	}
}
