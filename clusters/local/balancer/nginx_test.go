package balancer

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
)

func TestNGINXConfig(t *testing.T) {
	render := func(c Config) ([]byte, error) { return nginxConfig(c, "/modules/stream.so", "/run") }
	testConfig(t, clusters.HealthCheck{Interval: 700 * time.Millisecond, Timeout: 500 * time.Millisecond, Fall: 3, Rise: 2}, render, "node;1",
		configCase{"passive checks", func(*Config) {}, []string{"load_module /modules/stream.so;\n", "listen 10.77.0.10:6443;\n", "pid /run/nginx.pid;\n", "proxy_connect_timeout 500ms;\n",
			"server 10.77.0.11:6443 max_fails=3 fail_timeout=3s; # node-1\n", "server 10.77.0.12:6443 max_fails=3 fail_timeout=3s; # node-2\n"}, []string{"next_upstream"}},
		configCase{"blind", func(c *Config) { c.HealthCheck.Disabled = true }, []string{"max_fails=0;", "proxy_next_upstream off;"}, []string{"fail_timeout"}})
}

func TestStreamModule(t *testing.T) {
	for said, want := range map[string]string{
		"configure arguments: --modules-path=/m --with-stream=dynamic":         "/m/ngx_stream_module.so",
		"configure arguments: --with-stream --modules-path=/m":                 "",
		"configure arguments: --modules-path=/m --with-stream_ssl_module":      "none",
		"configure arguments: --with-stream=dynamic --with-stream_ssl_preread": "none",
	} {
		got, found := streamModule(said)
		if !found {
			got = "none"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

func TestNGINXMissing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if _, _, _, err := NGINX(Config{}, "nginx.conf", dir); err == nil || !strings.Contains(err.Error(), "install nginx-light") {
		t.Errorf("it says: %v", err)
	}
	without := "#!/bin/sh\necho 'configure arguments: --modules-path=" + dir + " --with-stream=dynamic' >&2\n"
	if err := os.WriteFile(filepath.Join(dir, "nginx"), []byte(without), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := NGINX(Config{}, "nginx.conf", dir); err == nil || !strings.Contains(err.Error(), "install libnginx-mod-stream") {
		t.Errorf("it says: %v", err)
	}
}

// startNGINX runs the real one, where it is installed.
func startNGINX(t *testing.T, c Config) (address string) {
	t.Helper()
	if _, _, err := findNGINX(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	c.Listen = freeAddress(t)
	file := filepath.Join(dir, "nginx.conf")
	path, args, config, err := NGINX(c, file, dir)
	if err != nil {
		t.Fatal(err)
	}
	startProgram(t, file, config, path, args, []string{"-t", "-q"}, func(out string) bool { return out != "" })
	return c.Listen
}

func TestRealNGINX(t *testing.T) {
	one, two := startServer(t, "one"), startServer(t, "two")
	servers := map[string]*server{"one": one, "two": two}
	address := startNGINX(t, Config{Backends: []Backend{one.backend(), two.backend()}, HealthCheck: quick()})
	eventually(t, "both servers answer", func() bool { got := askMany(address, 4); return got["one"] == 2 && got["two"] == 2 })

	name, body := hold(t, address)
	defer body.Close()
	servers[name].die()
	if _, err := io.ReadAll(body); err == nil {
		t.Error("the connection to the server that died ended as if nothing were wrong")
	}
	if got := askMany(address, 6); got[""] != 0 || got[name] != 0 {
		t.Errorf("%s is dead, and 6 requests went to %v", name, got)
	}
}
