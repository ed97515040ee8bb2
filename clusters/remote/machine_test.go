package remote

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
)

// TestLeadsTo: a machine is that of a node if it has the IDs that its kubelet reports or, without
// a kubelet, the node's address.
func TestLeadsTo(t *testing.T) {
	const own = "machine m1\nboot b1\n"
	for _, tc := range []struct{ name, seen, machine, boot, want string }{
		{"its own", own, "m1", "b1", ""},
		{"another machine of the cluster", own, "m2", "b2", "its machine ID is m1, and the kubelet of node-1 reports m2"},
		{"a clone", own, "m1", "b2", "its boot ID is b1, and the kubelet of node-1 reports b2"},
		{"containers on one kernel", own, "m2", "b1", "its machine ID is m1"},
		{"no kubelet", own, "", "", ""},
		{"no IDs", "", "m1", "b1", ""},
	} {
		s, err := parseSight(kubeadmNode() + tc.seen)
		if err != nil {
			t.Fatal(err)
		}
		nodes := []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: tc.machine, BootID: tc.boot}}}}
		err = leadsTo(testNode(), s, nodes)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}

	// Neither a Node nor the address.
	other, err := parseSight(strings.Replace(kubeadmNode(), "10.0.0.11/24", "10.0.0.12/24", 1))
	if err != nil {
		t.Fatal(err)
	}
	const want = "leads to a machine (host name node-1.example, addresses 10.0.0.12, 127.0.0.1) without the address of node node-1, 10.0.0.11"
	if err := leadsTo(testNode(), other, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("another machine without a kubelet: %v", err)
	}
	nodes := []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: "m1"}}}}
	if other.machine = "m1"; leadsTo(testNode(), other, nodes) != nil {
		t.Error("a machine whose address is translated on the way was refused")
	}
}

// TestAlone: two nodes are two machines, whatever the port or the user by which ssh reaches them.
func TestAlone(t *testing.T) {
	for _, tc := range []struct{ name, first, second, want string }{
		{"two machines", "boot b1\nnetwork net:[1]\n", "boot b2\nnetwork net:[1]\n", ""},
		{"two containers of one machine", "boot b1\nnetwork net:[1]\n", "boot b1\nnetwork net:[2]\n", ""},
		{"one machine, with two ports of sshd", "boot b1\nnetwork net:[1]\nconnection 10.0.0.9 51234 10.0.0.11 22\n", "boot b1\nnetwork net:[1]\nconnection 10.0.0.9 51235 10.0.0.11 2222\n",
			"ssh admin@cp of node node-2 leads to the machine of node node-1 (host name node-1.example, the same boot ID and network namespace)"},
		{"no IDs", "", "", ""},
	} {
		first, err := parseSight(kubeadmNode() + tc.first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := parseSight(kubeadmNode() + tc.second)
		if err != nil {
			t.Fatal(err)
		}
		err = alone(clusters.InventoryNode{Name: "node-2", SSH: "admin@cp"}, second, map[string]*sight{"node-1": first})
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// TestControlPorts: the ports that faults leave alone are those of the connections, as each node
// sees them, and not what the inventory or ssh_config says.
func TestControlPorts(t *testing.T) {
	c := &Cluster{}
	for i, connection := range []string{"10.0.0.9 51234 10.0.0.11 22", "10.0.0.9 51235 192.168.0.2 2222", "fd00::9 51236 fd00::13 22", ""} {
		s, err := parseSight(shown("1", "0", "init") + "connection " + connection + "\n")
		if err != nil {
			t.Fatal(err)
		}
		n := clusters.InventoryNode{Name: fmt.Sprintf("node-%d", i+1), SSH: "root@cp"}
		c.reached = append(c.reached, &node{found: &found{sight: s, node: n}})
	}
	for i, want := range []struct {
		own    uint16
		others []uint16
	}{{22, []uint16{22, 2222}}, {2222, []uint16{22}}, {22, []uint16{22, 2222}}, {0, []uint16{22, 2222}}} {
		n := c.reached[i]
		if own, others := n.found.config().ControlPort, c.portsBut(n); own != want.own || !slices.Equal(others, want.others) {
			t.Errorf("%s: port %d, others %v, want %+v", n.found.node.Name, own, others, want)
		}
	}
}

// TestConfiguredElsewhere: the times of etcd may be in its environment, those of the scheduler in
// its configuration file. Flags have precedence.
func TestConfiguredElsewhere(t *testing.T) {
	text := strings.Replace(kubeadmNode(), "--election-timeout"+argumentEnd+"5000"+argumentEnd, "", 1)
	text = strings.Replace(text, "kube-scheduler"+argumentEnd+"--leader-elect=true", "kube-scheduler"+argumentEnd+"--config=/etc/scheduler.yaml"+argumentEnd+"--leader-elect-retry-period=1s", 1)
	s, err := parseSight(text + "environment 101 ETCD_ELECTION_TIMEOUT=3000" + argumentEnd + "ETCD_DATA_DIR=/elsewhere" + argumentEnd + "\n")
	if err != nil {
		t.Fatal(err)
	}
	f, err := detect("kubeadm", testNode(), s)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.file("kube-scheduler", "config"); got != "/etc/scheduler.yaml" {
		t.Errorf("the scheduler's file is %q", got)
	}
	if err := f.configureScheduler([]byte("leaderElection: {leaderElect: true, leaseDuration: 1m0s, retryPeriod: 9s}\n")); err != nil {
		t.Fatal(err)
	}
	got := argsOf(f.processes)
	if e := got["etcd"]["election-timeout"]; e != "3000" || f.config().EtcdData != "/var/lib/etcd" {
		t.Errorf("election timeout %q, data in %q", e, f.config().EtcdData)
	}
	if s := got["kube-scheduler"]; s["leader-elect"] != "true" || s["leader-elect-lease-duration"] != "1m0s" || s["leader-elect-retry-period"] != "1s" || s["leader-elect-renew-deadline"] != "" {
		t.Errorf("the scheduler's settings are %v", s)
	}
	for _, one := range []struct{ component, flag, want string }{
		{"etcd", "election-timeout", "its environment"}, {"etcd", "data-dir", "its command line"},
		{"kube-scheduler", "leader-elect-lease-duration", "the file /etc/scheduler.yaml"}, {"kube-scheduler", "leader-elect-retry-period", "its command line"},
	} {
		if got := f.processes[framework.Component(one.component)].source(one.flag); got != one.want {
			t.Errorf("%s of %s is from %s, want %s", one.flag, one.component, got, one.want)
		}
	}
	if err := f.configureScheduler([]byte("{")); err == nil {
		t.Error("a broken file was accepted")
	}
}
