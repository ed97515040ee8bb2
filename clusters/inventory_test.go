package clusters

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

const inventoryHeader = "apiVersion: holdfast.dev/v1alpha1\nkind: Inventory\nmetadata: {name: theirs}\n"

func TestInventory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "nodes.yaml")
	text := inventoryHeader + `spec:
  kubeconfig: admin.conf
  distribution: kubeadm
  ssh: [-F, config]
  loadBalancer:
    server: https://lb.example:6443
    healthCheck: {interval: 2s, timeout: 1s, fall: 3}
  nodes:
  - name: cp-1.example
    address: 10.0.0.11
    ssh: root@10.0.0.11
    zone: a
    power: {off: "bmc off", on: "bmc on", status: "bmc status"}
  - {name: cp-2, address: "fd00::2", apiServer: "[fd00::2]:443", ssh: root@two}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	i, err := LoadInventory(file)
	if err != nil {
		t.Fatal(err)
	}
	if i.Spec.Kubeconfig != filepath.Join(dir, "admin.conf") || i.Spec.Distribution != "kubeadm" || !i.Reachable() {
		t.Errorf("it is %+v", i.Spec)
	}
	if a, b := i.Spec.Nodes[0].Server(), i.Spec.Nodes[1].Server(); a != "10.0.0.11:6443" || b != "[fd00::2]:443" {
		t.Errorf("the API servers are %s and %s", a, b)
	}
	if p := i.Spec.Nodes[0].Power; p == nil || *p != (InventoryPower{"bmc off", "bmc on", "bmc status"}) || i.Spec.Nodes[1].Power != nil {
		t.Errorf("the power is %+v", p)
	}
	// A plan does not contain the commands, and those who carry it out read them again.
	plan, err := json.Marshal(i)
	if err != nil || strings.Contains(string(plan), "bmc") {
		t.Errorf("error %v: %s", err, plan)
	}
	kept := &Inventory{}
	if err := errors.Join(json.Unmarshal(plan, kept), kept.LoadPower()); err != nil || !reflect.DeepEqual(kept, i) {
		t.Errorf("error %v: %+v, want %+v", err, kept, i)
	}
	if d := i.Spec.LoadBalancer.HealthCheck.Detection(); d != 7*time.Second {
		t.Errorf("the balancer's detection is %s", d)
	}
}

func TestBadInventories(t *testing.T) {
	node := "  - {name: cp-1, address: 10.0.0.11}\n"
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "nodes.yaml is empty: want an Inventory of holdfast.dev/v1alpha1"},
		{"another kind", header, `nodes.yaml:2: kind is Cluster: want an Inventory of holdfast.dev/v1alpha1; a file of kind Cluster is for holdfast up -f, or holdfast run --cluster`},
		{"no nodes", inventoryHeader + "spec: {nodes: []}\n", "nodes.yaml:4: spec.nodes has 0 nodes: want 1 to 9 control-plane nodes"},
		{"unknown field", inventoryHeader + "spec:\n  nodes:\n  - {name: a, address: 10.0.0.1, port: 1}\n", "nodes.yaml:6: unknown field spec.nodes[0].port"},
		{"no address", inventoryHeader + "spec:\n  nodes:\n  - {name: a}\n", "nodes.yaml:6: spec.nodes[0].address is missing"},
		{"bad address", inventoryHeader + "spec:\n  nodes:\n  - {name: a, address: host}\n", `nodes.yaml:6: spec.nodes[0].address is "host": want an IP address`},
		{"bad name", inventoryHeader + "spec:\n  nodes:\n  - {name: A_b, address: 10.0.0.1}\n", `nodes.yaml:6: spec.nodes[0].name is "A_b": want a host name in lower case`},
		{"reserved name", inventoryHeader + "spec:\n  nodes:\n  - {name: balancer, address: 10.0.0.1}\n", `spec.nodes[0].name is "balancer", which is reserved`},
		{"twice", inventoryHeader + "spec:\n  nodes:\n" + node + "  - {name: cp-2, address: 10.0.0.11}\n", "nodes.yaml:7: spec.nodes[1] and spec.nodes[0] both have the address 10.0.0.11"},
		{"some with ssh", inventoryHeader + "spec:\n  nodes:\n" + node + "  - {name: cp-2, address: 10.0.0.12, ssh: two}\n", "spec.nodes[1] and nodes[0] differ in ssh"},
		{"one machine twice", inventoryHeader + "spec:\n  nodes:\n  - {name: a, address: 10.0.0.1, ssh: one}\n  - {name: b, address: 10.0.0.2, ssh: one}\n", "spec.nodes[1] and spec.nodes[0] both have the ssh one"},
		{"an option for a destination", inventoryHeader + "spec:\n  nodes:\n  - {name: a, address: 10.0.0.1, ssh: -oProxyCommand=x}\n", `spec.nodes[0].ssh is "-oProxyCommand=x": want a destination`},
		{"half a switch", inventoryHeader + "spec:\n  nodes:\n  - name: a\n    address: 10.0.0.1\n    ssh: a\n    power: {off: x, on: y}\n", "nodes.yaml:9: spec.nodes[0].power.status is missing"},
		{"an empty command", inventoryHeader + "spec:\n  nodes:\n  - name: a\n    address: 10.0.0.1\n    ssh: a\n    power: {off: x, status: z,\n      on: ' '}\n", "nodes.yaml:10: spec.nodes[0].power.on is empty: want a command"},
		{"power without ssh", inventoryHeader + "spec:\n  nodes:\n  - {name: a, address: 10.0.0.1, power: {off: x, on: y, status: z}}\n", "nodes.yaml:6: spec.nodes[0].power needs ssh"},
		{"bad server", inventoryHeader + "spec:\n  loadBalancer: {server: lb:6443}\n  nodes:\n" + node, `spec.loadBalancer.server is "lb:6443": want a URL`},
		{"bad port", inventoryHeader + "spec:\n  nodes:\n  - {name: a, address: 10.0.0.1, apiServer: '10.0.0.1:0'}\n", `spec.nodes[0].apiServer is "10.0.0.1:0": want HOST:PORT`},
		{"unknown role", inventoryHeader + "spec:\n  nodes:\n  - name: a\n    address: 10.0.0.1\n    roles: [worker]\n", `nodes.yaml:8: spec.nodes[0].roles has "worker": want control-plane or etcd`},
		{"two roles", inventoryHeader + "spec:\n  nodes:\n  - {name: a, address: 10.0.0.1, roles: [control-plane, etcd]}\n", "nodes.yaml:6: spec.nodes[0].roles has 2 roles: want one"},
		{"a role that is not a list", inventoryHeader + "spec:\n  nodes:\n  - {name: a, address: 10.0.0.1, roles: etcd}\n", `nodes.yaml:6: spec.nodes[0].roles is "etcd": want a list`},
		{"etcd alone", inventoryHeader + "spec:\n  nodes:\n  - {name: a, address: 10.0.0.1, roles: [etcd]}\n", "nodes.yaml:5: spec.nodes has 0 nodes: want 1 to 9 control-plane nodes"},
		{"an API server on a host of etcd", inventoryHeader + "spec:\n  nodes:\n" + node + "  - {name: a, address: 10.0.0.1, roles: [etcd], apiServer: '10.0.0.11:6444'}\n",
			`nodes.yaml:7: spec.nodes[1].apiServer is "10.0.0.11:6444", and the role of the node is etcd`},
		{"a host of etcd twice", inventoryHeader + "spec:\n  nodes:\n" + node + "  - {name: etcd-1, address: 10.0.0.11, roles: [etcd]}\n", "spec.nodes[1] and spec.nodes[0] both have the address 10.0.0.11"},
		{"bad health check", inventoryHeader + "spec:\n  loadBalancer: {healthCheck: {fall: 0}}\n  nodes:\n" + node, "spec.loadBalancer.healthCheck.fall is 0: want 1 to 100"},
	} {
		_, err := ParseInventory("nodes.yaml", []byte(tc.text))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
	}
}

// TestInventoryOfExternalEtcd: hosts of etcd follow the control-plane nodes, whose numbers then do
// not depend on them; nothing is said of their API servers.
func TestInventoryOfExternalEtcd(t *testing.T) {
	i, err := ParseInventory("nodes.yaml", []byte(inventoryHeader+`spec:
  nodes:
  - {name: etcd-1, address: 10.0.0.21, roles: [etcd]}
  - {name: cp-1, address: 10.0.0.11, roles: [control-plane]}
  - {name: etcd-2, address: 10.0.0.22, roles: [etcd]}
  - {name: cp-2, address: 10.0.0.12, apiServer: "10.0.0.21:6443"}
`))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range i.Spec.Nodes {
		names = append(names, n.Name)
	}
	if got := strings.Join(names, " "); got != "cp-1 cp-2 etcd-1 etcd-2" || !i.ExternalEtcd() || i.Spec.Nodes[0].EtcdOnly() || !i.Spec.Nodes[2].EtcdOnly() {
		t.Errorf("the nodes are %s, external etcd %t", got, i.ExternalEtcd())
	}
	// Times are those of the nodes that run the component: the others have no defaults of it.
	c := Default()
	c.Spec.Inventory, c.Spec.Nodes = i, make([]NodeSpec, 4)
	for j := range c.Spec.Nodes {
		c.Spec.Nodes[j].ExtraArgs = ExtraArgs{"kube-apiserver": {"goaway-chance": "0.01", "etcd-servers": "https://10.0.0.21:2379,https://10.0.0.22:2379"},
			"kube-controller-manager": {"leader-elect-lease-duration": "5s", "node-monitor-grace-period": "20s"}, "kube-scheduler": {"leader-elect-lease-duration": "6s"}}
		if j > 1 {
			c.Spec.Nodes[j].ExtraArgs = ExtraArgs{"etcd": {"election-timeout": "300"}}
		}
	}
	s, err := Settings(c)
	if err != nil || s.LeaseDuration != 6*time.Second || s.NodeGrace != 20*time.Second || s.ElectionTimeout != 300*time.Millisecond || s.GoawayChance != 0.01 || !s.RemoteEtcd {
		t.Errorf("error %v: the settings are %+v", err, s)
	}
	i.Spec.Nodes = i.Spec.Nodes[:2]
	if i.ExternalEtcd() {
		t.Error("without hosts of etcd it is external")
	}
}

func FuzzParseInventory(f *testing.F) {
	f.Add([]byte(inventoryHeader + "spec:\n  nodes:\n  - {name: cp-1, address: 10.0.0.11, apiServer: 'x:1', ssh: a}\n"))
	f.Add([]byte("spec: {nodes: [[]], ssh: {}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		i, err := ParseInventory("x", data)
		if err == nil && (len(i.Spec.Nodes) == 0 || !i.Spec.Nodes[0].Address.IsValid()) {
			t.Errorf("accepted: %+v", i)
		}
	})
}
