package balancer

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	proxy "github.com/holdfast-ha/holdfast/clusters/local/balancer"
)

// A file with other servers is one that kind could have written: the balancer reads it, and
// Envoy's other settings stay.
func TestWithServers(t *testing.T) {
	was, err := os.ReadFile("testdata/cds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	now, err := WithServers(was, []string{"ha-control-plane2:6443", "ha-control-plane4:6443"})
	if err != nil {
		t.Fatal(err)
	}
	var before, after proxy.Config
	if err := parseClusters(was, &before); err != nil {
		t.Fatal(err)
	}
	if err := parseClusters(now, &after); err != nil {
		t.Fatalf("%v in\n%s", err, now)
	}
	var names []string
	for _, b := range after.Backends {
		names = append(names, b.Address)
	}
	if !slices.Equal(names, []string{"ha-control-plane2:6443", "ha-control-plane4:6443"}) {
		t.Errorf("servers %v", names)
	}
	if before.HealthCheck != after.HealthCheck || before.CheckPath != after.CheckPath {
		t.Errorf("checks %+v, were %+v", after.HealthCheck, before.HealthCheck)
	}
	for _, keep := range []string{"type: STRICT_DNS", `tls_mode: "true"`, "connect_timeout: 0.25s", "trust_chain_verification: ACCEPT_UNTRUSTED"} {
		if !bytes.Contains(now, []byte(keep)) {
			t.Errorf("no %q in\n%s", keep, now)
		}
	}
	for bad, says := range map[string]string{
		"resources: []":          "0 clusters",
		"resources: [{name: x}]": "no load_assignment",
		"{":                      "clusters",
	} {
		if _, err := WithServers([]byte(bad), nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := WithServers(was, []string{"nowhere"}); err == nil {
		t.Error("a server without a port will do")
	}
}
