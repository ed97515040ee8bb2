package balancer

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
)

func TestHAProxyConfig(t *testing.T) {
	c := Config{
		Listen:      "10.77.0.10:6443",
		Backends:    []Backend{{"node-1", "10.77.0.11:6443"}, {"node-2", "10.77.0.12:6443"}},
		HealthCheck: clusters.HealthCheck{Interval: 2 * time.Second, Timeout: 1500 * time.Millisecond, Fall: 3, Rise: 2},
	}
	for _, tc := range []struct {
		name      string
		change    func(*Config)
		want, not []string
	}{
		{"checked", func(*Config) {}, []string{
			"bind 10.77.0.10:6443\n", "stats socket /run/h.sock", "option httpchk GET /readyz\n", "http-check expect status 200\n", "timeout check 1500ms\n", "balance roundrobin\n",
			"server node-1 10.77.0.11:6443 check check-ssl verify none inter 2000ms fall 3 rise 2 on-marked-down shutdown-sessions\n", "server node-2 10.77.0.12:6443 check", "option redispatch 1\n",
		}, []string{"retries 0"}},
		{"blind", func(c *Config) { c.HealthCheck.Disabled = true },
			[]string{"server node-1 10.77.0.11:6443\n", "retries 0\n"}, []string{"check", "redispatch"}},
		{"least connections", func(c *Config) { c.Algorithm = LeastConnections }, []string{"balance leastconn\n"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := c
			tc.change(&c)
			data, err := HAProxyConfig(c, "/run/h.sock")
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !strings.Contains(string(data), want) {
					t.Errorf("%q is missing in\n%s", want, data)
				}
			}
			for _, not := range tc.not {
				if strings.Contains(string(data), not) {
					t.Errorf("%q is in\n%s", not, data)
				}
			}
		})
	}
	c.Backends[0].Name = "node 1"
	if _, err := HAProxyConfig(c, ""); err == nil {
		t.Error("no error for a name with a space")
	}
	c.Backends[0].Name = "node-1"
	if _, err := HAProxyConfig(c, "/"+strings.Repeat("x", 107)); err == nil {
		t.Error("no error for a socket with too long a path")
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
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path, append([]string{"-c"}, args...)...).CombinedOutput(); err != nil || strings.Contains(string(out), "WARNING") {
		t.Fatalf("HAProxy does not like its configuration: %v\n%s", err, out)
	}
	process := exec.Command(path, args...)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Process.Kill()
		process.Wait()
	})
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
