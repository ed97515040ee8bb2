package balancer

import "testing"

func TestHAProxyFollow(t *testing.T) {
	one, two := startServer(t, "one"), startServer(t, "two")
	c := Config{Backends: []Backend{one.backend()}, HealthCheck: quick()}
	address, socket := startHAProxy(t, c)
	c.Listen = address
	eventually(t, "the first server answers", func() bool { return askMany(address, 2)["one"] == 2 })

	c.Backends = []Backend{one.backend(), two.backend()}
	if err := HAProxyFollow(t.Context(), socket, c); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both answer, and the new one is checked", func() bool {
		got := askMany(address, 4)
		return got["one"] > 0 && got["two"] > 0 && two.asked.Load() > 0
	})
	two.ready.Store(false)
	eventually(t, "the new one gets no requests while it is not ready", func() bool { got := askMany(address, 4); return got["two"] == 0 && got[""] == 0 })
	two.ready.Store(true)
	eventually(t, "it gets requests again", func() bool { return askMany(address, 4)["two"] > 0 })

	// As an interrupted removal leaves it.
	if err := haproxyTell(t.Context(), socket, "disable server apiservers/two"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a disabled server gets no requests", func() bool { return askMany(address, 4)["two"] == 0 })
	if err := HAProxyFollow(t.Context(), socket, c); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it gets requests again", func() bool { return askMany(address, 4)["two"] > 0 })

	c.Backends = []Backend{two.backend()}
	if err := HAProxyFollow(t.Context(), socket, c); err != nil {
		t.Fatal(err)
	}
	if got := askMany(address, 6); got["two"] != 6 {
		t.Errorf("the first was taken out, and 6 requests went to %v", got)
	}
	if got, err := HAProxyBackends(t.Context(), socket); err != nil || len(got) != 1 || got[0].Name != "two" {
		t.Errorf("backends %+v, error %v", got, err)
	}
	if err := HAProxyFollow(t.Context(), socket, c); err != nil {
		t.Errorf("when nothing changes: %v", err)
	}
	c.Backends[0].Name = "two;show"
	if err := HAProxyFollow(t.Context(), socket, c); err == nil {
		t.Error("no error for a name that ends a command")
	}
}
