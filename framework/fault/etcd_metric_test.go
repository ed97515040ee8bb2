package fault

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework/members"
)

// tunnelled gives access to an etcd member through its node alone: nothing listens on its endpoint.
type tunnelled struct{ server *httptest.Server }

func (tunnelled) EtcdConfig(string) (clientv3.Config, error) {
	return clientv3.Config{Endpoints: []string{"http://127.0.0.1:1"}}, nil
}

func (a tunnelled) DialEtcd(ctx context.Context, _ string) (net.Conn, error) {
	config := a.server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"h2"}
	return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", a.server.Listener.Addr().String())
}

func TestMetricThroughTunnel(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && r.URL.Path == "/metrics" {
			fmt.Fprint(w, "# TYPE etcd_x gauge\netcd_x 17\n")
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	if got, err := metric(t.Context(), members.Member{Node: "node-1"}, tunnelled{server}, "etcd_x"); err != nil || got != 17 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := metric(t.Context(), members.Member{Node: "node-1"}, tunnelled{server}, "etcd_y"); err == nil || !strings.Contains(err.Error(), "metrics of etcd on node-1 (status 200) have no etcd_y") {
		t.Error(err)
	}
}
