package local

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/framework"
)

// TestAwaitLeavesNoConnections counts the connections of a server after many requests, such as
// repeated status queries.
func TestAwaitLeavesNoConnections(t *testing.T) {
	var open, most atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			most.Store(max(most.Load(), open.Add(1)))
		case http.StateClosed:
			open.Add(-1)
		}
	}
	s.StartTLS()
	defer s.Close()
	e := framework.Entrance{Name: "server", Config: &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}}
	for range 3 {
		if _, err := await.API(t.Context(), e, "/readyz", await.Anything); err != nil {
			t.Fatal(err)
		}
	}
	if most.Load() == 0 {
		t.Fatal("no connection was counted")
	}
	eventually(t, 10*time.Second, "all connections are closed", func() bool { return open.Load() == 0 })
}
