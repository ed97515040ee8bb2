package balancer

import (
	"net"
	"net/http"
	"testing"
)

// askFrom asks on a new connection from an address of the loopback who answers.
func askFrom(t *testing.T, from string, b *Balancer) string {
	t.Helper()
	client := newClient(false)
	client.Transport.(*http.Transport).DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext
	response, err := client.Get("https://" + b.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	name := make([]byte, 16)
	n, _ := response.Body.Read(name)
	return string(name[:n])
}

func TestAffinity(t *testing.T) {
	servers := map[string]*server{"one": startServer(t, "one"), "two": startServer(t, "two"), "three": startServer(t, "three")}
	b := start(t, Config{Algorithm: Affinity, ConnectOnly: true, HealthCheck: quick(),
		Backends: []Backend{servers["one"].backend(), servers["two"].backend(), servers["three"].backend()}})
	b.waitHealthy(t, 3)
	stays := func(from, on string) {
		t.Helper()
		for range 5 {
			if got := askFrom(t, from, b); got != on {
				t.Fatalf("the client at %s was on %s and got to %s", from, on, got)
			}
		}
	}
	first, second := askFrom(t, "127.0.0.1", b), askFrom(t, "127.0.0.2", b)
	if first == second {
		t.Errorf("two clients are both on %s", first)
	}
	stays("127.0.0.1", first)
	stays("127.0.0.2", second)

	servers[first].die()
	other := askFrom(t, "127.0.0.1", b)
	if other == first {
		t.Fatalf("%s is dead and answers", first)
	}
	stays("127.0.0.1", other)
	stays("127.0.0.2", second)
}
