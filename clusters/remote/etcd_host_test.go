package remote

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
)

func etcdHost() clusters.InventoryNode {
	return clusters.InventoryNode{Name: "etcd-1", Address: netip.MustParseAddr("10.0.0.21"), SSH: "root@10.0.0.21", Roles: []clusters.Role{clusters.RoleEtcd}}
}

// etcdUnit is what is seen on a host of etcd whose unit has its settings in the environment, and
// etcdPod on one where a kubelet without API servers runs it, as in kubeadm's guide.
const etcdUnit = "systemd\naddress eth0 10.0.0.21/24\nprocess 1 0 /sbin/init" + argumentEnd + "\nprocess 20 1 /usr/local/bin/etcd" + argumentEnd + "\n" +
	"environment 20 ETCD_DATA_DIR=/data/etcd" + argumentEnd + "ETCD_LISTEN_CLIENT_URLS=https://10.0.0.21:2379" + argumentEnd + "ETCD_TRUSTED_CA_FILE=/etc/etcd/pki/ca.crt" + argumentEnd +
	"ETCD_CERT_FILE=/etc/etcd/pki/server.crt" + argumentEnd + "ETCD_KEY_FILE=/etc/etcd/pki/server.key" + argumentEnd + "\nunit 20 etcd.service\n"

func etcdPod() string {
	text := "systemd\naddress eth0 10.0.0.21/24\n" + shown("1", "0", "/sbin/init") + shown("50", "1", "/usr/bin/containerd") + shown("60", "1", "/usr/bin/kubelet") +
		shown("100", "1", "/usr/bin/containerd-shim-runc-v2") +
		shown("101", "100", "etcd", "--data-dir=/var/lib/etcd", "--trusted-ca-file=/etc/kubernetes/pki/etcd/ca.crt", "--cert-file=/etc/kubernetes/pki/etcd/server.crt", "--key-file=/etc/kubernetes/pki/etcd/server.key")
	return text + "manifest /etc/kubernetes/manifests/etcd.yaml " + base64.StdEncoding.EncodeToString([]byte("kind: Pod\n")) + "\n"
}

// TestEtcdHost: a member is a unit, a static pod or a process; a profile in the inventory is that of
// the control-plane nodes.
func TestEtcdHost(t *testing.T) {
	process := strings.ReplaceAll(strings.ReplaceAll(etcdUnit, "systemd\n", ""), "unit 20 etcd.service\n", "")
	for _, tc := range []struct{ name, distribution, seen, profile, unit, want string }{
		{"a unit", "auto", etcdUnit, "systemd", "etcd.service", ""},
		{"a unit beside kubeadm's nodes", "kubeadm", etcdUnit, "systemd", "etcd.service", ""},
		{"a static pod", "", etcdPod(), "kubeadm", "", ""},
		{"a process", "processes", process, "processes", "", ""},
		{"no member", "auto", shown("1", "0", "init"), "", "", "no profile fits how the components on etcd-1 are run: profile kubeadm: no process etcd that containerd-shim-runc-v2 started"},
		{"an API server", "auto", etcdUnit + shown("30", "1", "/usr/bin/kube-apiserver"), "", "", "an API server runs (PID 30), but the role in the inventory is etcd"},
		{"two members", "processes", process + shown("31", "1", "etcd"), "", "", "2 processes may be etcd"},
	} {
		s, err := parseSight(tc.seen)
		if err != nil {
			t.Fatal(err)
		}
		f, err := detect(tc.distribution, etcdHost(), s)
		if tc.want != "" {
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		c := f.config()
		if f.profile.Name != tc.profile || !slices.Equal(f.components(), []framework.Component{framework.Etcd}) || c.Components[0].Unit != tc.unit || c.PKI != "" || c.Device != "eth0" {
			t.Errorf("%s: profile %s, components %v, configuration %+v", tc.name, f.profile.Name, f.components(), c)
		}
		if want := map[string]string{"kubeadm": "/var/lib/etcd"}[tc.profile]; c.EtcdData != want && c.EtcdData != "/data/etcd" || c.EtcdClient.URL == "" {
			t.Errorf("%s: the configuration is %+v", tc.name, c)
		}
	}
}

// TestNodeOfExternalEtcd: beside a member elsewhere, a node's agent still knows how its API server
// authenticates, to undo what was done through etcd.
func TestNodeOfExternalEtcd(t *testing.T) {
	text := strings.Replace(kubeadmNode(), "process 101 100 etcd", "process 101 100 other", 1)
	s, err := parseSight(text)
	if err != nil {
		t.Fatal(err)
	}
	f, err := detect("kubeadm", testNode(), s)
	if err != nil {
		t.Fatal(err)
	}
	c := f.config()
	if c.EtcdData != "" || c.EtcdClient.URL != "" || c.EtcdClient.Cert != "/etc/kubernetes/pki/client.crt" || slices.Contains(f.components(), framework.Etcd) {
		t.Errorf("components %v, configuration %+v", f.components(), c)
	}
}

// TestReachEtcdHosts: they are not entrances, and have no versions of components.
func TestReachEtcdHosts(t *testing.T) {
	host := etcdHost()
	host.SSH = ""
	a := api(t, quiet(), testNode(), host)
	if len(a.entrances) != 2 || a.entrances[0].Node != "" || a.entrances[1].Node != "node-1" {
		t.Fatalf("the entrances are %+v", a.entrances)
	}
	if a.server("etcd-1").Config != nil {
		t.Error("there is an entrance on a host of etcd")
	}
	spec := clusters.Default()
	spec.Spec.Inventory, spec.Spec.Nodes = a.Inventory, []clusters.NodeSpec{{Name: "node-1"}, {Name: "etcd-1"}}
	c := &Observed{access: a, spec: spec}
	c.find()
	if v := c.Versions(); len(v) != 1 || v["node-1"] == nil {
		t.Errorf("the versions are %v", v)
	}
	// Nothing shows the election timeout of a member that is not reached.
	if n := c.Nodes()[1]; !slices.Equal(n.Components(), []framework.Component{framework.Etcd}) || !slices.Contains(c.settings.Assumed, "E") {
		t.Errorf("components %v, assumed %v", n.Components(), c.settings.Assumed)
	}
	if _, err := c.nodes[1].(*plain).ServingEndpoints(framework.APIServer); err == nil {
		t.Error("the host has an API server")
	}
}

// TestGroups: hosts of etcd and nodes of API servers are broken apart from each other.
func TestGroups(t *testing.T) {
	members := []string{"etcd-1", "etcd-2", "etcd-3"}
	for _, tc := range []struct {
		name             string
		servers, members []string
		broken           []string
		want             string
	}{
		{"one of each", []string{"a", "b"}, members, []string{"a", "etcd-1"}, ""},
		{"both API servers", []string{"a", "b"}, members, []string{"a", "b"}, "a cluster of 2 tolerates the loss of 1"},
		{"the only API server", []string{"a"}, members, []string{"a"}, "a cluster of 1 tolerates the loss of 0"},
		{"two of three API servers", []string{"a", "b", "c"}, members, []string{"a", "b"}, "a cluster of 3 tolerates the loss of 1"},
		{"two members", []string{"a", "b"}, members, []string{"etcd-1", "etcd-3"}, "etcd-1, etcd-3 would be broken at the same time, and a cluster of 3"},
		{"one of two members", []string{"a", "b"}, members[:2], []string{"etcd-1"}, "a cluster of 2 tolerates the loss of 0"},
		{"one of two nodes with members", []string{"a", "b"}, []string{"a", "b"}, []string{"a"}, "a cluster of 2 tolerates the loss of 0"},
	} {
		b := broken{groups: groupsOf(tc.servers, tc.members)}
		err := b.add("x", "1", tc.broken, time.Hour, false)
		if tc.want == "" && err != nil || tc.want != "" && (!errors.Is(err, ErrNoConsent) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	// An isolated host is one broken node, whatever is cut off from it.
	both := func(pairs ...[2]string) (links []framework.Link) {
		for _, p := range pairs {
			links = append(links, framework.Link{From: p[0], To: p[1]}, framework.Link{From: p[1], To: p[0]})
		}
		return links
	}
	links := both([2]string{"etcd-1", "etcd-2"}, [2]string{"etcd-1", "etcd-3"}, [2]string{"etcd-1", "a"}, [2]string{"etcd-1", "b"})
	if off := cutOff(links, framework.Impairment{Cut: true}, append([]string{"a", "b"}, members...)); !slices.Equal(off, []string{"etcd-1"}) {
		t.Errorf("cut off are %v", off)
	}
}

// TestEtcdHostsFromPods: URLs of API servers that are not those of nodes are hosts of etcd.
func TestEtcdHostsFromPods(t *testing.T) {
	urls := []string{"https://127.0.0.1:2379", "https://10.0.0.11:2379", "https://10.0.0.21:2379", "https://10.0.0.22:2379", "https://10.0.0.21:2381", "https://localhost:2379", "https://[fd00::21]:2379", ":"}
	var got []string
	for _, h := range etcdHosts(t.Context(), urls, []clusters.InventoryNode{testNode()}) {
		got = append(got, h.Name+" "+h.Address.String())
		if !h.EtcdOnly() {
			t.Errorf("%+v", h)
		}
	}
	if want := []string{"etcd-10-0-0-21 10.0.0.21", "etcd-10-0-0-22 10.0.0.22", "etcd-fd00--21 fd00::21"}; !slices.Equal(got, want) {
		t.Errorf("the hosts are %q, want %q", got, want)
	}
}

// TestDiscoverEtcdHosts: the inventory that init writes has them, after the control-plane nodes.
func TestDiscoverEtcdHosts(t *testing.T) {
	a := api(t, quiet(
		"/api/v1/nodes", `{"items": [{"metadata": {"name": "node-1"}, "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.11"}]}}]}`,
		"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", `{"items": []}`,
		"/api/v1/namespaces/kube-system/pods", `{"items": [{"metadata": {"labels": {"component": "kube-apiserver"}}, "spec": {"nodeName": "node-1", "containers": [
			{"command": ["kube-apiserver", "--etcd-servers=https://10.0.0.21:2379,https://10.0.0.22:2379"]}]}}]}`))
	i, err := Discover(t.Context(), "theirs", a.Spec.Kubeconfig, "", "root")
	if err != nil {
		t.Fatal(err)
	}
	if n := i.Spec.Nodes; len(n) != 3 || n[0].EtcdOnly() || !n[1].EtcdOnly() || n[2].SSH != "root@10.0.0.22" {
		t.Errorf("the nodes are %+v", n)
	}
}
