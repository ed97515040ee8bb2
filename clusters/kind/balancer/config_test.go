package balancer

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	proxy "github.com/holdfast-ha/holdfast/clusters/local/balancer"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The files are as kind v0.33.0 writes them.
func TestConfigure(t *testing.T) {
	got, err := configure(read(t, "lds.yaml"), read(t, "cds.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := proxy.Config{
		Listen: "0.0.0.0:6443", Algorithm: proxy.RoundRobin, CheckPath: "/healthz",
		Backends: []proxy.Backend{
			{Name: "ha-control-plane:6443", Address: "ha-control-plane:6443"},
			{Name: "ha-control-plane2:6443", Address: "ha-control-plane2:6443"},
		},
		HealthCheck: clusters.HealthCheck{Interval: 2 * time.Second, Timeout: 2 * time.Second, Fall: 2, Rise: 1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("configure = %+v\nwant %+v", got, want)
	}

	b, err := readBootstrap(filepath.Join("testdata", "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if cds, lds, admin := b.DynamicResources.CDS.Source.Path, b.DynamicResources.LDS.Source.Path, b.Admin.Address.String(); cds != "/home/envoy/cds.yaml" || lds != "/home/envoy/lds.yaml" || admin != "0.0.0.0:10000" {
		t.Errorf("files %s and %s, admin address %s", cds, lds, admin)
	}
	if _, err := readBootstrap(filepath.Join("testdata", "cds.yaml")); err == nil || !strings.Contains(err.Error(), "dynamic_resources") {
		t.Errorf("error for a file that names no others = %v", err)
	}
}

// What is there before kind has configured the balancer.
func TestConfigureNothing(t *testing.T) {
	for _, nothing := range []string{"resources: []", ""} {
		c, err := configure([]byte(nothing), []byte(nothing))
		if err != nil || c.Listen != "" || len(c.Backends) != 0 {
			t.Errorf("configure = %+v, %v", c, err)
		}
	}
}

func TestConfigureBad(t *testing.T) {
	lds, cds := string(read(t, "lds.yaml")), string(read(t, "cds.yaml"))
	for _, test := range []struct {
		name, lds, cds, want string
	}{
		{"no YAML", "{", cds, "listeners:"},
		{"no YAML of clusters", lds, "{", "clusters:"},
		{"no port", strings.Replace(lds, "port_value: 6443", "", 1), cds, "listener: socket_address"},
		{"two listeners", "resources: [{}, {}]", cds, "there are 2 listeners"},
		{"two clusters", lds, "resources: [{}, {}]", "there are 2 clusters"},
		{"port too high", lds, strings.Replace(cds, "6443", "66443", 1), "endpoint: socket_address"},
		{"no duration", lds, strings.Replace(cds, "interval: 2s", "interval: soon", 1), `"soon" is not a duration`},
		{"interval missing", lds, strings.Replace(cds, "    interval: 2s\n", "", 1), "is invalid"},
		{"path without a slash", lds, strings.Replace(cds, "/healthz", "healthz", 1), "begins with a slash"},
		{"the same API server twice", lds, strings.Replace(cds, "control-plane2", "control-plane", 1), "names of their own"},
	} {
		if _, err := configure([]byte(test.lds), []byte(test.cds)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

func TestConfigureOtherChecks(t *testing.T) {
	cds := string(read(t, "cds.yaml"))
	c, err := configure(read(t, "lds.yaml"), []byte(strings.Replace(cds, "    http_health_check:\n      path: /healthz\n", "", 1)))
	if err != nil || !c.ConnectOnly || c.HealthCheck.Disabled {
		t.Errorf("without a path: %+v, %v", c, err)
	}
	before, rest, _ := strings.Cut(cds, "  health_checks:")
	_, after, _ := strings.Cut(rest, "  transport_socket_matches:")
	c, err = configure(read(t, "lds.yaml"), []byte(before+"  transport_socket_matches:"+after))
	if err != nil || !c.HealthCheck.Disabled || len(c.Backends) != 2 {
		t.Errorf("without checks: %+v, %v", c, err)
	}
}

// Whatever is in the files, it is refused or can be served.
func FuzzConfigure(f *testing.F) {
	f.Add(read(f, "lds.yaml"), read(f, "cds.yaml"))
	f.Add([]byte("resources: []"), []byte("resources: []"))
	f.Fuzz(func(t *testing.T, lds, cds []byte) {
		c, err := configure(lds, cds)
		if err != nil || c.Listen == "" {
			return
		}
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
		if !c.HealthCheck.Disabled && !c.ConnectOnly && !strings.HasPrefix(c.CheckPath, "/") {
			t.Errorf("it checks %q", c.CheckPath)
		}
	})
}
