package fault

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
)

// TestOverloadLeavesNoConnections counts the connections of a server that the
// clients have asked, over either version of HTTP.
func TestOverloadLeavesNoConnections(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var open atomic.Int64
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			s.EnableHTTP2 = http2
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				switch state {
				case http.StateNew:
					open.Add(1)
				case http.StateClosed, http.StateHijacked:
					open.Add(-1)
				}
			}
			s.StartTLS()
			t.Cleanup(s.Close)
			o := &crowd{entrance: framework.Entrance{Name: "server", Config: &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}}}
			if err := o.connect(); err != nil {
				t.Fatal(err)
			}
			if _, err := o.ask(t.Context()); err != nil {
				t.Fatal(err)
			}
			if open.Load() != 1 {
				t.Fatalf("%d connections after one request", open.Load())
			}
			for deadline := time.Now().Add(10 * idleLimit); open.Load() > 0; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d connections are open %s after the last request", open.Load(), 10*idleLimit)
				}
			}
		})
	}
}
