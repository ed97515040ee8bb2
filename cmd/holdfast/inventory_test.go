package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
)

// TestInventoryInit writes the inventory of a cluster from its API, and checks what it can reach: that
// goes to standard error, and what cannot be reached keeps no inventory from being written.
func TestInventoryInit(t *testing.T) {
	v := newVendor(t)
	v.set("/api/v1/nodes", `{"items": [{"metadata": {"name": "cp-1", "labels": {"topology.kubernetes.io/zone": "a"}}, "status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}}]}`)
	v.set("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", fmt.Sprintf(`{"items": [{"ports": [{"port": %s}], "endpoints": [{"addresses": ["127.0.0.1"]}]}]}`, v.ports[0]))
	v.write("root@127.0.0.1", strings.Replace(vendorNode(1, v.ports[0]), "eth0 10.0.0.11/24", "lo 127.0.0.1/8", 1), 0o600)
	for _, tc := range []struct {
		name, readyz string
		want         []string
	}{
		{"all can be reached", "ok", []string{"ok    API server on cp-1", "ok    node cp-1 (ssh root@127.0.0.1): distribution processes: etcd, kube-apiserver, kube-controller-manager, kube-scheduler"}},
		{"an API server is not ready", "", []string{"FAIL  API server on cp-1", "ok    node cp-1", "holdfast: 1 of 2 checks failed: correct the inventory"}},
	} {
		v.set("/readyz", tc.readyz)
		var stdout, stderr bytes.Buffer
		code := execute([]string{"inventory", "init", "--kubeconfig", filepath.Join(v.dir, "kubeconfig"), "--ssh", "root"}, strings.NewReader(""), &stdout, &stderr)
		i, err := clusters.ParseInventory("nodes.yaml", stdout.Bytes())
		if code != exitPass || err != nil {
			t.Fatalf("%s: exit code %d, %v\n%s%s", tc.name, code, err, stdout.String(), stderr.String())
		}
		if n := i.Spec.Nodes; len(n) != 1 || n[0].Name != "cp-1" || n[0].Zone != "a" || n[0].Server() != "127.0.0.1:"+v.ports[0] || n[0].SSH != "root@127.0.0.1" {
			t.Errorf("%s: the nodes are %+v", tc.name, n)
		}
		for _, want := range tc.want {
			if !strings.Contains(stderr.String(), want) {
				t.Errorf("%s: %q is not in:\n%s", tc.name, want, stderr.String())
			}
		}
		if strings.Contains(stderr.String(), "consent") {
			t.Errorf("%s: an inventory that is new has no consent:\n%s", tc.name, stderr.String())
		}
	}
	for _, what := range v.touched() {
		t.Errorf("touched: %s", what)
	}
}
