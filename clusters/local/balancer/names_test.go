package balancer

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"testing"

	"github.com/miekg/dns"
)

// resolve asks a name server as a Go program does, and returns the addresses in order.
func resolve(t *testing.T, server, name string) []string {
	t.Helper()
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server)
	}}
	addrs, err := r.LookupHost(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return addrs
}

func TestNames(t *testing.T) {
	one, two := startServer(t, "one"), startServer(t, "two")
	// Both are on 127.0.0.1; a listener of its own gives the second another address.
	proxy, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { proxy.Close() })
	go two.Config.Serve(tls.NewListener(proxy, two.TLS))
	second := Backend{Name: "two", Address: proxy.Addr().String()}
	b := start(t, Config{Names: []string{"api.test.holdfast"}, Backends: []Backend{one.backend(), second}, HealthCheck: quick()})
	b.waitHealthy(t, 2)

	first := map[string]bool{}
	for range 4 {
		got := resolve(t, b.Addr().String(), "api.test.holdfast")
		first[got[0]] = true
		if slices.Sort(got); !slices.Equal(got, []string{"127.0.0.1", "127.0.0.2"}) {
			t.Fatalf("the name stands for %v", got)
		}
	}
	if len(first) != 2 {
		t.Errorf("always the same address comes first: %v", first)
	}
	one.ready.Store(false)
	b.waitHealthy(t, 1)
	if got := resolve(t, b.Addr().String(), "api.test.holdfast"); !slices.Equal(got, []string{"127.0.0.2"}) {
		t.Errorf("one server is ready, and the name stands for %v", got)
	}
	two.ready.Store(false)
	b.waitHealthy(t, 0)
	if got := resolve(t, b.Addr().String(), "api.test.holdfast"); len(got) != 2 {
		t.Errorf("no server is ready, and the name stands for %v", got)
	}
	answer, err := dns.Exchange(new(dns.Msg).SetQuestion("other.holdfast.", dns.TypeA), b.Addr().String())
	if err != nil || answer.Rcode != dns.RcodeNameError {
		t.Errorf("another name: %v, %v", answer, err)
	}
}
