package remote

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

// TestSecondScheduler: a pod of the API that runs the scheduler's program is not the component, and one
// that may be it is refused.
func TestSecondScheduler(t *testing.T) {
	second := shown("350", "1", "/usr/bin/containerd-shim-runc-v2") + shown("351", "350", "kube-scheduler", "--config=/etc/plugins.yaml")
	const group = "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1b4e28ba_2fa1_11d2_883f_0016d3cca427.slice/cri-containerd-1.scope\n"
	for _, tc := range []struct{ name, text, want string }{
		{"in a pod of the API", second + "cgroup 351 " + group, ""},
		{"in another static pod", second + "cgroup 351 0::/kubepods/pod0123456789abcdef0123456789abcdef/1\n", "2 processes may be kube-scheduler: PIDs 351 and 401 are both kube-scheduler that containerd-shim-runc-v2 started"},
	} {
		s, err := parseSight(kubeadmNode() + tc.text)
		if err != nil {
			t.Fatal(err)
		}
		f, err := detect("kubeadm", testNode(), s)
		switch {
		case tc.want == "" && (err != nil || f.processes[framework.Scheduler].pid != 401):
			t.Errorf("%s: %+v, error %v", tc.name, f, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
	}
}

// TestFlag reads flags as the programs do.
func TestFlag(t *testing.T) {
	for _, tc := range []struct {
		args string
		want string
	}{
		{"--election-timeout=5000", "5000"},
		{"--election-timeout 5000", "5000"},
		{"-election-timeout 5000", "5000"},
		{"--election-timeout=1000 --election-timeout=5000", "5000"},
		{"--election-timeout=1000 --election-timeout 5000", "5000"},
		{"--election_timeout=5000", "5000"},
		{"--other election-timeout=1", ""},
		{"--election-timeout --other=1", "true"},
		{"--election-timeout", "true"},
	} {
		p := process{args: append([]string{"program"}, strings.Fields(tc.args)...)}
		if got := p.flag("election-timeout"); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.args, got, tc.want)
		}
		// What comes from elsewhere counts only without the flag.
		p = p.with("its environment", "--election-timeout=7000").with("the profile", "--election-timeout=9000", "--more", "1")
		want, from := tc.want, "its command line"
		if want == "" {
			want, from = "7000", "its environment"
		}
		if got := p.flag("election-timeout"); got != want || p.source("election-timeout") != from || p.flag("more") != "1" {
			t.Errorf("%s, with more: %q from %s, want %q from %s", tc.args, got, p.source("election-timeout"), want, from)
		}
	}
}

// TestEtcdFileAlone: with a configuration file, etcd ignores its other flags and its environment.
func TestEtcdFileAlone(t *testing.T) {
	text := strings.Replace(etcdUnit, "/usr/local/bin/etcd"+argumentEnd, strings.Join([]string{"/usr/local/bin/etcd", "--config-file=/etc/etcd/etcd.yaml", "--election-timeout=1000", "--heartbeat-interval=100", ""}, argumentEnd), 1)
	s, err := parseSight(text)
	if err != nil {
		t.Fatal(err)
	}
	f, err := detect("systemd", etcdHost(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.configure([]byte("data-dir: /var/lib/etcd\nelection-timeout: 5000\n")); err != nil {
		t.Fatal(err)
	}
	p := f.processes[framework.Etcd]
	for flag, want := range map[string]string{"election-timeout": "5000", "heartbeat-interval": "", "data-dir": "/var/lib/etcd", "cert-file": "", "config-file": "/etc/etcd/etcd.yaml"} {
		if got := p.flag(flag); got != want {
			t.Errorf("%s is %q, want %q", flag, got, want)
		}
	}
	if from := p.source("election-timeout"); from != "the file /etc/etcd/etcd.yaml" {
		t.Errorf("the election timeout is from %s", from)
	}
}

// TestK3sElsewhere: without the file of the profile, a node with a member is refused, and not taken for
// one with another datastore.
func TestK3sElsewhere(t *testing.T) {
	for _, member := range []bool{false, true} {
		text := k3sNode()
		if member {
			text += "listen 094C\n"
		}
		s, err := parseSight(text)
		if err != nil {
			t.Fatal(err)
		}
		f, err := detect("k3s", testNode(), s)
		if err != nil {
			t.Fatal(err)
		}
		err = f.configure(nil)
		if member && (err == nil || !strings.Contains(err.Error(), "/var/lib/rancher/k3s/server/db/etcd/config is missing: name its configuration in a profile")) || !member && err != nil {
			t.Errorf("a process listens on port 2380: %t; error %v", member, err)
		}
		if has := slices.Contains(f.components(), framework.Etcd); has != member {
			t.Errorf("a process listens on port 2380: %t; the node has a member: %t", member, has)
		}
	}
}

// TestMemberURL: a certificate is not for the unspecified address.
func TestMemberURL(t *testing.T) {
	const any4, any6 = "https://0.0.0.0:2379", "https://[::]:2379"
	for _, tc := range []struct{ address, listens, advertises, want string }{
		{"10.0.0.11", "", "", "https://10.0.0.11:2379"},
		{"10.0.0.11", "https://10.0.0.11:2379,https://127.0.0.1:2379", "", "https://127.0.0.1:2379"},
		{"10.0.0.11", "https://10.1.0.11:2379, https://10.0.0.11:2379", "", "https://10.0.0.11:2379"},
		{"10.0.0.11", "http://10.1.0.11:12379", "https://etcd-1:2379", "http://10.1.0.11:12379"},
		{"10.0.0.11", any4, "https://etcd-1.example:443,https://10.0.0.11:2379", "https://etcd-1.example:2379"},
		{"10.0.0.11", any4, "", "https://10.0.0.11:2379"},
		{"10.0.0.11", any6, any4, "https://10.0.0.11:2379"},
		{"fd00::11", any6, "https://[fd00::12]:2379", "https://[fd00::12]:2379"},
		{"fd00::11", any6, "", "https://[fd00::11]:2379"},
		{"fd00::11", "https://[fd00::12]:2379,https://[fd00::11]:2379", "", "https://[fd00::11]:2379"},
	} {
		etcd := process{args: []string{"etcd", "--listen-client-urls=" + tc.listens, "--advertise-client-urls=" + tc.advertises}}
		if got := memberURL(etcd, netip.MustParseAddr(tc.address)); got != tc.want {
			t.Errorf("%s listens at %q and advertises %q: %s, want %s", tc.address, tc.listens, tc.advertises, got, tc.want)
		}
	}
}
