package balancer

import (
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
)

func TestHAProxyConfig(t *testing.T) {
	render := func(c Config) ([]byte, error) { return HAProxyConfig(c, "/run/h.sock") }
	testConfig(t, clusters.HealthCheck{Interval: 2 * time.Second, Timeout: 1500 * time.Millisecond, Fall: 3, Rise: 2}, render, "node 1",
		configCase{"checked", func(*Config) {}, []string{
			"bind 10.77.0.10:6443\n", "stats socket /run/h.sock", "option httpchk GET /readyz\n", "http-check expect status 200\n", "timeout check 1500ms\n", "balance roundrobin\n",
			"server node-1 10.77.0.11:6443 check check-ssl verify none inter 2000ms fall 3 rise 2 on-marked-down shutdown-sessions\n", "server node-2 10.77.0.12:6443 check", "option redispatch 1\n",
		}, []string{"retries 0"}},
		configCase{"blind", func(c *Config) { c.HealthCheck.Disabled = true },
			[]string{"server node-1 10.77.0.11:6443\n", "retries 0\n"}, []string{"check", "redispatch"}})
	if _, err := HAProxyConfig(Config{Listen: "127.0.0.1:0", HealthCheck: quick()}, "/"+strings.Repeat("x", 107)); err == nil || !strings.Contains(err.Error(), "107 bytes") {
		t.Errorf("a socket with too long a path: %v", err)
	}
}

func TestHAProxyMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, _, _, err := HAProxy(Config{Listen: "127.0.0.1:0", HealthCheck: quick()}, "haproxy.cfg", "")
	if err == nil || !strings.Contains(err.Error(), "install haproxy") || !strings.Contains(err.Error(), "builtin") {
		t.Errorf("it says: %v", err)
	}
}

// startHAProxy runs the real one, where it is installed.
func startHAProxy(t *testing.T, c Config) (address, statsSocket string) {
	t.Helper()
	if _, err := exec.LookPath("haproxy"); err != nil {
		t.Skip("HAProxy is not installed")
	}
	dir := t.TempDir()
	c.Listen = freeAddress(t)
	file := filepath.Join(dir, "haproxy.cfg")
	path, args, config, err := HAProxy(c, file, filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	startProgram(t, file, config, path, args, []string{"-c"}, func(out string) bool { return strings.Contains(out, "WARNING") })
	return c.Listen, filepath.Join(dir, "s")
}

func TestRealHAProxy(t *testing.T) {
	one, two := startServer(t, "one"), startServer(t, "two")
	servers := map[string]*server{"one": one, "two": two}
	address, socket := startHAProxy(t, Config{Backends: []Backend{one.backend(), two.backend()}, HealthCheck: quick()})
	eventually(t, "both servers answer and are checked", func() bool {
		got := askMany(address, 4)
		return got["one"] == 2 && got["two"] == 2 && one.asked.Load() > 0 && two.asked.Load() > 0
	})

	name, body := hold(t, address)
	defer body.Close()
	servers[name].ready.Store(false)
	if _, err := io.ReadAll(body); err == nil {
		t.Error("the connection to the server that is down ended as if nothing were wrong")
	}
	eventually(t, name+" gets no requests", func() bool { got := askMany(address, 4); return got[name] == 0 && got[""] == 0 })
	servers[name].ready.Store(true)
	eventually(t, name+" gets requests again", func() bool { return askMany(address, 4)[name] > 0 })

	one.die()
	eventually(t, "HAProxy tells that one is down and two is up", func() bool {
		got, err := HAProxyBackends(t.Context(), socket)
		if err != nil || len(got) != 2 || time.Since(got[0].Since) > time.Minute {
			t.Fatalf("backends %+v, error %v", got, err)
		}
		return got[0].Name == "one" && !got[0].Up && got[1].Name == "two" && got[1].Up
	})
	if got := askMany(address, 6); got["two"] != 6 {
		t.Errorf("one is dead, and 6 requests went to %v", got)
	}
}

func TestRealHAProxyBlind(t *testing.T) {
	one, two := startServer(t, "one"), startServer(t, "two")
	address, _ := startHAProxy(t, Config{Backends: []Backend{one.backend(), two.backend()}, HealthCheck: blind()})
	eventually(t, "both servers answer", func() bool { got := askMany(address, 4); return got["one"] > 0 && got["two"] > 0 })
	one.die()
	if got := askMany(address, 6); got[""] != 3 {
		t.Errorf("one is dead, nobody checks, and 6 requests went to %v", got)
	}
}
