package remote

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
)

// TestParties: packets of a node with several networks may have any of its addresses, and those that
// nodes share are of none. A Node may have another name than its host in the inventory.
func TestParties(t *testing.T) {
	item := func(name, cidr string, internal ...string) string {
		addresses := `{"type": "Hostname", "address": "` + name + `"}, {"type": "ExternalIP", "address": "203.0.113.1"}`
		for _, a := range internal {
			addresses += `, {"type": "InternalIP", "address": "` + a + `"}`
		}
		return fmt.Sprintf(`{"metadata": {"name": %q}, "spec": {"podCIDRs": [%q]}, "status": {"addresses": [%s]}}`, name, cidr, addresses)
	}
	const vip = "192.168.50.100"
	c := &Cluster{Observed: &Observed{access: api(t, quiet("/api/v1/nodes", `{"items": [`+item("node-1", "10.244.0.0/24", "10.0.0.11", "fd00::11", vip)+`, `+
		item("cp-b", "10.244.1.0/24", "10.1.0.12", "10.0.0.12")+`, `+item("worker", "10.244.2.0/24", "10.0.0.20", "fd00::20")+`]}`))}}
	for i, peer := range []string{"192.168.50.11", "192.168.50.12", "192.168.50.13"} {
		f := &found{sight: &sight{}, processes: map[framework.Component]process{
			framework.Etcd: {args: []string{"etcd", "--initial-advertise-peer-urls=https://" + peer + ":2380", "--advertise-client-urls=https://localhost:2379,https://" + peer + ":2379,https://127.0.0.1:2379"}},
		}}
		if i < 2 { // the third is a host of etcd
			f.processes[framework.APIServer] = process{args: []string{"kube-apiserver", "--advertise-address=" + vip}}
		}
		c.access.Spec.Nodes = append(c.access.Spec.Nodes[:i:i], clusters.InventoryNode{Name: fmt.Sprint("node-", i+1), Address: netip.MustParseAddr(fmt.Sprint("10.0.0.", 11+i))})
		c.reached = append(c.reached, &node{plain: &plain{spec: clusters.Node{Name: fmt.Sprint("node-", i+1)}, address: netip.MustParseAddr(fmt.Sprint("10.0.0.", 11+i))}, found: f})
	}
	all, err := c.parties(t.Context(), []netip.Prefix{netip.MustParsePrefix("10.0.0.9/32")})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"node-1":              {"10.0.0.11/32", "10.244.0.0/24", "192.168.50.11/32", "fd00::11/128"},
		"node-2":              {"10.0.0.12/32", "10.244.1.0/24", "192.168.50.12/32", "10.1.0.12/32"},
		"node-3":              {"10.0.0.13/32", "192.168.50.13/32"},
		framework.WorkersHost: {"10.0.0.20/32", "fd00::20/128", "10.244.2.0/24"},
		framework.HarnessHost: {"10.0.0.9/32"},
	}
	for _, p := range all {
		var got []string
		for _, prefix := range p.Prefixes {
			got = append(got, prefix.String())
		}
		if !slices.Equal(got, want[p.Name]) {
			t.Errorf("%s has %q, want %q", p.Name, got, want[p.Name])
		}
		delete(want, p.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing are %v", want)
	}
}
