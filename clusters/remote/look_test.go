package remote

import (
	"encoding/base64"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/framework"
)

// shown is what lookScript prints of a process.
func shown(pid, parent string, args ...string) string {
	return "process " + pid + " " + parent + " " + strings.Join(args, argumentEnd) + argumentEnd + "\n"
}

const apiServerPod = `kind: Pod
spec:
  containers:
  - name: kube-apiserver
    volumeMounts:
    - {name: audit, mountPath: /audit}
    - {name: pki, mountPath: /etc/kubernetes/pki}
  volumes:
  - {name: audit, hostPath: {path: /var/log/kubernetes}}
  - {name: pki, hostPath: {path: /etc/kubernetes/pki}}
`

// kubeadmNode is what is seen on a node of kubeadm.
func kubeadmNode() string {
	text := "Welcome to node-1\nhost node-1.example\nconnection 10.0.0.9 51234 10.0.0.11 22\nsystemd\naddress lo 127.0.0.1/8\naddress eth1 10.0.0.11/24\n"
	text += shown("1", "0", "/sbin/init") + shown("50", "1", "/usr/bin/containerd") + shown("60", "1", "/usr/bin/kubelet", "--config=/var/lib/kubelet/config.yaml")
	for i, c := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		pid := string(rune('1'+i)) + "00"
		text += shown(pid, "1", "/usr/bin/containerd-shim-runc-v2", "-namespace", "k8s.io")
		args := map[string][]string{
			"etcd":                    {"--data-dir=/var/lib/etcd", "--listen-client-urls=https://127.0.0.1:2379,https://10.0.0.11:2379", "--election-timeout", "5000"},
			"kube-apiserver":          {"--secure-port=6443", "--audit-log-path=/audit/audit.log", "--etcd-cafile=/etc/kubernetes/pki/etcd/ca.crt", "--etcd-certfile=/etc/kubernetes/pki/client.crt", "--etcd-keyfile=/etc/kubernetes/pki/client.key"},
			"kube-controller-manager": {"--leader-elect=true", "--leader-elect-lease-duration=60s"},
			"kube-scheduler":          {"--leader-elect=true"},
		}[c]
		text += shown(pid[:1]+"01", pid, append([]string{c}, args...)...)
		manifest := "kind: Pod\n"
		if c == "kube-apiserver" {
			manifest = apiServerPod
		}
		text += "manifest /etc/kubernetes/manifests/" + c + ".yaml " + base64.StdEncoding.EncodeToString([]byte(manifest)) + "\n"
	}
	return text
}

func testNode() clusters.InventoryNode {
	return clusters.InventoryNode{Name: "node-1", Address: netip.MustParseAddr("10.0.0.11")}
}

func TestKubeadm(t *testing.T) {
	s, err := parseSight(kubeadmNode() + "address wg0 10.8.0.1\n")
	if err != nil {
		t.Fatal(err)
	}
	f, err := detect("auto", testNode(), s)
	if err != nil {
		t.Fatal(err)
	}
	c := f.config()
	if f.profile.Name != "kubeadm" || len(c.Components) != 6 || c.PKI != "/etc/kubernetes/pki" {
		t.Errorf("profile %s, configuration %+v", f.profile.Name, c)
	}
	want := agent.EtcdClient{URL: "https://127.0.0.1:2379", CA: "/etc/kubernetes/pki/etcd/ca.crt", Cert: "/etc/kubernetes/pki/client.crt", Key: "/etc/kubernetes/pki/client.key"}
	if c.EtcdClient != want || c.EtcdData != "/var/lib/etcd" || c.Audit != "/var/log/kubernetes/audit.log" {
		t.Errorf("etcd %+v, data %s, audit log %s", c.EtcdClient, c.EtcdData, c.Audit)
	}
	if at := netip.MustParseAddr; s.devices[at("10.8.0.1")] != "wg0" || s.devices[at("127.0.0.1")] != "lo" {
		t.Errorf("devices %v", s.devices)
	}
	if c.Device != "eth1" || c.ControlPort != 22 || s.client != netip.MustParseAddr("10.0.0.9") || c.Leash != Leash || !s.systemd || s.host != "node-1.example" {
		t.Errorf("device %q, port %d, client %s, leash %s", c.Device, c.ControlPort, s.client, c.Leash)
	}
	args := argsOf(f.processes)
	if args[framework.Etcd]["election-timeout"] != "5000" || args[framework.ControllerManager]["leader-elect-lease-duration"] != "60s" {
		t.Errorf("arguments %v", args)
	}
	if got := f.components(); !slices.Equal(got, []framework.Component{framework.Etcd, framework.APIServer, framework.ControllerManager, framework.Scheduler}) {
		t.Errorf("components %v", got)
	}
}

// TestProcesses: components that a supervisor starts, one of which has a child of its name.
func TestProcesses(t *testing.T) {
	text := shown("1", "0", "/sbin/init") + shown("7", "1", "/usr/bin/supervisord") + shown("9", "7", "/opt/bin/kube-apiserver", "--secure-port=6443") +
		shown("10", "9", "/opt/bin/kube-apiserver", "helper") + shown("8", "7", "/opt/bin/etcd", "--listen-client-urls=https://127.0.0.1:2379")
	s, err := parseSight(text)
	if err != nil {
		t.Fatal(err)
	}
	f, err := detect("", testNode(), s)
	if err != nil {
		t.Fatal(err)
	}
	if f.profile.Name != "processes" || f.processes[framework.APIServer].pid != 9 || len(f.config().Components) != 2 {
		t.Errorf("profile %s, API server %+v, configuration %+v", f.profile.Name, f.processes[framework.APIServer], f.config())
	}
	if text := f.String(); text != "distribution processes: etcd, kube-apiserver; not found: kube-controller-manager, kube-scheduler" {
		t.Error(text)
	}
}

// k0sNode is what is seen on a controller of k0s without a worker: all is in the unit of k0s.
func k0sNode() string {
	const bin, pki = "/var/lib/k0s/bin/", "/var/lib/k0s/pki/"
	text := "systemd\n" + shown("1", "0", "/sbin/init") + shown("70", "1", "/usr/local/bin/k0s", "controller", "--config=/etc/k0s/k0s.yaml") +
		shown("71", "70", bin+"etcd", "--data-dir=/var/lib/k0s/etcd", "--listen-client-urls=https://127.0.0.1:2379") +
		shown("72", "70", bin+"kube-apiserver", "--secure-port=6443", "--etcd-cafile="+pki+"etcd/ca.crt", "--etcd-certfile="+pki+"apiserver-etcd-client.crt", "--etcd-keyfile="+pki+"apiserver-etcd-client.key") +
		shown("73", "70", bin+"kube-scheduler", "--leader-elect=true") + shown("74", "70", bin+"kube-controller-manager", "--leader-elect=true") +
		shown("75", "70", bin+"konnectivity-server")
	for _, pid := range []string{"70", "71", "72", "73", "74", "75"} {
		text += "unit " + pid + " k0scontroller.service\n"
	}
	return text
}

// TestK0s: children of k0s, which share its unit and are killed at each start.
func TestK0s(t *testing.T) {
	s, err := parseSight(k0sNode())
	if err != nil {
		t.Fatal(err)
	}
	f, err := detect("auto", testNode(), s)
	if err != nil || f.profile.Name != "k0s" {
		t.Fatalf("%+v, %v", f, err)
	}
	c := f.config()
	if len(c.Components) != 4 || c.EtcdData != "/var/lib/k0s/etcd" || c.EtcdClient.Cert != "/var/lib/k0s/pki/apiserver-etcd-client.crt" || c.EtcdClient.URL != "https://127.0.0.1:2379" {
		t.Errorf("configuration %+v", c)
	}
	for _, one := range c.Components {
		if one.Parent != "k0s" || one.Unit != "" || one.Manifest != "" {
			t.Errorf("%+v", one)
		}
	}
	if _, err := detect("systemd", testNode(), s); err == nil || !strings.Contains(err.Error(), "run in one systemd unit, k0scontroller.service") {
		t.Errorf("a unit of several components: %v", err)
	}
}

// systemdNode is what is seen on a node whose components are processes of the first one, and
// systemdUnits their units.
var systemdNode = "systemd\n" + shown("1", "0", "/sbin/init") + shown("20", "1", "/usr/local/bin/etcd", "--data-dir=/data/etcd") + shown("21", "1", "/usr/local/bin/kube-apiserver", "--secure-port=6443") +
	shown("22", "1", "/usr/local/bin/kube-scheduler")

const systemdUnits = "unit 20 etcd-cluster.service\nunit 21 apiserver.service\nunit 22 kube-scheduler.service\n"

// TestSystemd: units of any name, one for each component.
func TestSystemd(t *testing.T) {
	node := func(units string) string { return systemdNode + units }
	const own = systemdUnits
	for _, tc := range []struct{ name, units, want string }{
		{"own units", own, ""},
		{"a hierarchy for each controller", own + own, ""},
		{"no unit", "unit 20 etcd.service\nunit 22 kube-scheduler.service\n", "kube-apiserver runs in no systemd unit"},
		{"one for two", strings.Replace(own, "apiserver.service", "etcd-cluster.service", 1), "etcd and kube-apiserver run in one systemd unit, etcd-cluster.service"},
	} {
		s, err := parseSight(node(tc.units))
		if err != nil {
			t.Fatal(err)
		}
		f, err := detect("systemd", testNode(), s)
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
		units := map[framework.Component]string{}
		for _, c := range f.config().Components {
			units[c.Name] = c.Unit
		}
		if units[framework.Etcd] != "etcd-cluster.service" || units[framework.APIServer] != "apiserver.service" || len(units) != 3 {
			t.Errorf("%s: %v", tc.name, units)
		}
		if f, err = detect("auto", testNode(), s); err != nil || f.profile.Name != "systemd" {
			t.Errorf("%s: %+v, %v", tc.name, f, err)
		}
	}
	s, err := parseSight(kubeadmNode() + "unit 60 other.service\n")
	if err == nil {
		_, err = detect("kubeadm", testNode(), s)
	}
	if err == nil || !strings.Contains(err.Error(), "node-agent runs in the systemd unit other.service, and not in kubelet.service") {
		t.Errorf("a kubelet in another unit: %v", err)
	}
}

// TestWithoutSystemd: what a profile stops by its unit is killed at each start, also if the unit that the
// kernel shows is one of the machine around a container.
func TestWithoutSystemd(t *testing.T) {
	s, err := parseSight(strings.Replace(kubeadmNode(), "systemd\n", "", 1) + "unit 60 docker.service\n")
	if err != nil {
		t.Fatal(err)
	}
	f, err := detect("kubeadm", testNode(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range f.config().Components {
		if c.Unit != "" {
			t.Errorf("%s is stopped by %s", c.Name, c.Unit)
		}
	}
	if _, err := detect("systemd", testNode(), s); err == nil || !strings.Contains(err.Error(), "runs in no systemd unit") {
		t.Errorf("profile systemd: %v", err)
	}
}

// TestRKE2: static pods elsewhere, and an etcd that has its settings from a file, with the
// election timeout of RKE2.
func TestRKE2(t *testing.T) {
	text := strings.ReplaceAll(kubeadmNode(), "/etc/kubernetes/manifests/", "/var/lib/rancher/rke2/agent/pod-manifests/")
	text = strings.Replace(text, shown("101", "100", "etcd", "--data-dir=/var/lib/etcd", "--listen-client-urls=https://127.0.0.1:2379,https://10.0.0.11:2379", "--election-timeout", "5000"),
		shown("101", "100", "etcd", "--config-file=/var/lib/rancher/rke2/server/db/etcd/config"), 1)
	s, err := parseSight(text)
	if err != nil {
		t.Fatal(err)
	}
	f, err := detect("auto", testNode(), s)
	if err != nil || f.profile.Name != "rke2" {
		t.Fatalf("%+v, %v", f, err)
	}
	if file := f.configFile(); file != "/var/lib/rancher/rke2/server/db/etcd/config" {
		t.Errorf("etcd's file is %q", file)
	}
	err = f.configure([]byte("advertise-client-urls: https://10.0.0.11:2379\nclient-transport-security: {cert-file: x}\ndata-dir: /var/lib/rancher/rke2/server/db/etcd\n" +
		"election-timeout: 5000\nlisten-client-urls: https://127.0.0.1:2379,https://10.0.0.11:2379\n"))
	if err != nil {
		t.Fatal(err)
	}
	c := f.config()
	if c.EtcdData != "/var/lib/rancher/rke2/server/db/etcd" || c.EtcdClient.URL != "https://127.0.0.1:2379" || c.PKI != "" {
		t.Errorf("configuration %+v", c)
	}
	if args := argsOf(f.processes); args[framework.Etcd]["election-timeout"] != "5000" {
		t.Errorf("arguments %v", args)
	}
	if from := f.processes[framework.Etcd].source("election-timeout"); from != "the file /var/lib/rancher/rke2/server/db/etcd/config" {
		t.Errorf("the election timeout is from %s", from)
	}
	for _, one := range c.Components {
		if one.Name == framework.NodeAgent && (one.Unit != "" || one.Manifest != "") {
			t.Errorf("the kubelet is %+v", one)
		}
	}
}

// k3sNode is what is seen on a server of k3s, which hides its arguments behind a title.
func k3sNode() string {
	return "systemd\n" + shown("1", "0", "/sbin/init") + shown("7", "1", "/usr/local/bin/k3s server", "", "", "") +
		shown("9", "7", "containerd", "-c", "/var/lib/rancher/k3s/agent/etc/containerd/config.toml") +
		"unit 7 k3s.service\nunit 9 k3s.service\nlisten 192B\nlisten 0016\n"
}

// k3sConfig is the part of k3s's configuration of etcd that holdfast reads.
const k3sConfig = "advertise-client-urls: https://10.0.0.11:2379\ndata-dir: /var/lib/rancher/k3s/server/db/etcd\nelection-timeout: 5000\nheartbeat-interval: 500\n" +
	"initial-advertise-peer-urls: https://10.0.0.11:2380\nlisten-client-urls: https://127.0.0.1:2379,https://10.0.0.11:2379\n"

// TestK3s: one process that is all components, of which a fault on one hits all.
func TestK3s(t *testing.T) {
	s, err := parseSight(k3sNode())
	if err != nil {
		t.Fatal(err)
	}
	f, err := detect("auto", testNode(), s)
	if err != nil || f.profile.Name != "k3s" {
		t.Fatalf("%+v, %v", f, err)
	}
	if file := f.configFile(); file != "/var/lib/rancher/k3s/server/db/etcd/config" {
		t.Errorf("etcd's file is %q", file)
	}
	if err := f.configure([]byte(k3sConfig)); err != nil {
		t.Fatal(err)
	}
	all := []framework.Component{framework.Etcd, framework.APIServer, framework.ControllerManager, framework.Scheduler, framework.NodeAgent}
	for _, c := range all {
		if got := f.Group(c); !slices.Equal(got, all) {
			t.Errorf("%s is one process with %v", c, got)
		}
	}
	if f.fused(framework.ContainerRuntime) {
		t.Error("containerd is a process of its own")
	}
	c := f.config()
	tls := "/var/lib/rancher/k3s/server/tls/etcd/"
	if want := (agent.EtcdClient{URL: "https://127.0.0.1:2379", CA: tls + "server-ca.crt", Cert: tls + "client.crt", Key: tls + "client.key"}); c.EtcdClient != want || c.EtcdData != "/var/lib/rancher/k3s/server/db/etcd" {
		t.Errorf("etcd %+v, data %s", c.EtcdClient, c.EtcdData)
	}
	if len(c.Components) != 2 || !slices.Equal(c.Components[0].With, all[1:]) || c.Components[0].Command != "k3s server" || c.Components[1].Parent != "k3s server" {
		t.Errorf("components %+v", c.Components)
	}
	if args := argsOf(f.processes); args[framework.Etcd]["election-timeout"] != "5000" {
		t.Errorf("arguments %v", args)
	}
	for c, want := range map[framework.Component]string{framework.Etcd: "the file /var/lib/rancher/k3s/server/db/etcd/config", framework.APIServer: "the profile k3s"} {
		flag := map[framework.Component]string{framework.Etcd: "election-timeout", framework.APIServer: "etcd-cafile"}[c]
		if from := f.processes[c].source(flag); from != want {
			t.Errorf("%s is from %s, want %s", flag, from, want)
		}
	}
	if text := f.String(); text != "distribution k3s: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, node-agent, containerd (5 in one process)" {
		t.Error(text)
	}
	// With another datastore.
	if err := f.configure(nil); err != nil || slices.Contains(f.components(), framework.Etcd) || slices.Contains(f.Group(framework.APIServer), framework.Etcd) || f.configFile() != "" {
		t.Errorf("without etcd: %v, components %v", err, f.components())
	}
}

func TestNotDetected(t *testing.T) {
	nothing := shown("1", "0", "/sbin/init")
	other := strings.Replace(kubeadmNode(), "--secure-port=6443", "--secure-port=443", 1)
	noManifest := strings.Replace(kubeadmNode(), "manifest /etc/kubernetes/manifests/etcd.yaml", "manifest /other", 1)
	for _, tc := range []struct{ name, distribution, text, want string }{
		{"no API server", "auto", nothing, "no profile fits how the components on node-1 are run: profile kubeadm: no process kube-apiserver that containerd-shim-runc-v2 started"},
		{"k3s's agent", "k3s", strings.Replace(k3sNode(), "k3s server", "k3s agent", 1), "no process k3s server"},
		{"nothing on the port", "auto", strings.Replace(k3sNode(), "listen 192B", "listen 192C", 1), "no process listens on port 6443"},
		{"MicroK8s", "auto", nothing + shown("7", "1", "/snap/microk8s/1/kubelite", "--apiserver-args-file=x"), "MicroK8s runs on node-1, without etcd"},
		{"another port", "kubeadm", other, "the API server serves on port 443, but the inventory says 6443"},
		{"no manifest", "kubeadm", noManifest, "etcd is running, and /etc/kubernetes/manifests/etcd.yaml is missing"},
		{"a cluster inside", "kubeadm", kubeadmNode() + shown("900", "1", "/usr/bin/containerd-shim-runc-v2") + shown("901", "900", "kube-apiserver"),
			"2 processes may be kube-apiserver: PIDs 201 and 901 are both kube-apiserver that containerd-shim-runc-v2 started"},
		{"unknown profile", "kubeadmin", nothing, "distribution kubeadmin is unknown, did you mean kubeadm?"},
	} {
		s, err := parseSight(tc.text)
		if err == nil {
			_, err = detect(tc.distribution, testNode(), s)
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
	}
	if _, err := parseSight("nothing"); err == nil {
		t.Error("a node without processes was accepted")
	}
}

func TestOwnProfile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	for _, tc := range []struct{ text, want string }{
		{"components:\n- {name: kube-apiserver, command: apiserver, unit: a.service}\n", ""},
		{"components:\n- {name: kube-apiserver, command: apiserver}\nbefore: [supervisor.service, 'my-stack@cp.service']\n", ""},
		{"components:\n- {name: kube-apiserver, command: apiserver}\nbefore: [supervisor]\n", `mine.yaml:3: before[0] is "supervisor": want a systemd service such as kubelet.service`},
		{"components:\n- {name: kube-apiserver, command: apiserver}\nbefore: [a.service, docker.socket]\n", `mine.yaml:3: before[1] is "docker.socket": want a systemd service`},
		{"components:\n- {name: kube-apiserver, command: apiserver}\nbefore: [var-lib-etcd.mount]\n", `mine.yaml:3: before[0] is "var-lib-etcd.mount": want a systemd service`},
		{"components:\n- {name: kube-apiserver, command: apiserver}\nbefore: [sysinit.target]\n", `mine.yaml:3: before[0] is "sysinit.target": want a systemd service`},
		{"components:\n- {name: kube-apiserver, command: apiserver}\nbefore:\n- a.service\n- \"b.service\\nAfter=c.service\"\n", "mine.yaml:5: before[1] is"},
		{"", "mine.yaml is empty: want a distribution profile"},
		{"components:\n- {name: kube-apiserver, command: [a]}\n", "mine.yaml:2: components[0].command is a list: want a string"},
		{"components: []\n", "has no kube-apiserver"},
		{"components:\n- {name: kube-apiserver}\n", "mine.yaml:2: components[0] needs a name and a command"},
		{"components:\n- {name: kube-apiserver, command: a, manifest: /m}\n", "mine.yaml:2: kube-apiserver has a manifest and no parent"},
		{"components:\n- {name: kube-apiserver, command: a, parent: p, manifest: /m, unit: u}\n", "has both a manifest and a unit"},
		{"components:\n- {name: kube-apiserver, command: a, parent: p, manifest: m/a.yaml}\n", `the manifest "m/a.yaml" of kube-apiserver must be an absolute path`},
		{"components:\n- {name: kube-apiserver, command: a, parent: p, manifest: '/m/a b.yaml'}\n", "without spaces"},
		{"component: []\n", "mine.yaml:1: unknown field component: want one of components, pki, before"},
		{"components:\n- {name: kube-apiserver, command: a, group: g}\n- {name: etcd, command: b, group: g}\n", "mine.yaml:2: kube-apiserver and etcd are in the group g, which is one process, and differ"},
	} {
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := profileOf(file)
		if tc.want == "" && (err != nil || p.Name != "mine") || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %+v, %v", tc.text, p, err)
		}
		if before := (&found{profile: p, sight: &sight{}}).config().Before; !slices.Equal(before, p.Before) || err == nil && (len(before) > 0) != strings.Contains(tc.text, "before") {
			t.Errorf("%s: the agent's unit is before %q", tc.text, before)
		}
	}
}

// TestScript runs the script here: it finds this very process and its arguments.
func TestScript(t *testing.T) {
	sleep := exec.Command("sleep", "1000")
	sleep.Args = []string{"my sleep", "1000"}
	// Some shells' echo would print other lines of it, and join the next one to it.
	odd := []string{"odd sleep", `CORP\north`, "a\nconnection 10.9.9.9 1 10.0.0.11 22", `b\nconnection 10.9.9.9 1 10.0.0.11 22`, `\\`, `\c`}
	another := exec.Command("sh", append([]string{"-c", "read -r line", odd[0]}, odd[1:]...)...)
	if _, err := another.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := another.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = another.Process.Kill(); _ = another.Wait() }()
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleep.Process.Kill(); _ = sleep.Wait() }()
	// As ssh has it run by the user's shell.
	cmd := exec.Command("sh", "-c", asRoot(lookScript()))
	cmd.Env = append(os.Environ(), "SSH_CONNECTION=10.0.0.9 5 10.0.0.11 22")
	out, err := cmd.Output()
	if err != nil && os.Getuid() != 0 {
		t.Skip("it takes root")
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := parseSight(string(out))
	if err != nil {
		t.Fatal(err)
	}
	p := s.find("my sleep", "")
	if len(p) != 1 || p[0].pid != sleep.Process.Pid || p[0].parent != os.Getpid() || !slices.Equal(p[0].args, []string{"my sleep", "1000"}) {
		t.Errorf("it found %+v", p)
	}
	i := slices.IndexFunc(s.processes, func(p process) bool { return p.pid == another.Process.Pid })
	odd[2] = strings.ReplaceAll(odd[2], "\n", " ")
	if i < 0 || !slices.Equal(s.processes[i].args[3:], odd) {
		t.Errorf("of %q it found process %d of %+v", odd, i, s.processes)
	}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err != nil || s.boot != strings.TrimSpace(string(boot)) {
		t.Errorf("the boot ID is %q, error %v", s.boot, err)
	}
	if s.port != 22 || s.client != netip.MustParseAddr("10.0.0.9") {
		t.Errorf("client %s, port %d", s.client, s.port)
	}
}

func FuzzParseSight(f *testing.F) {
	f.Add(kubeadmNode())
	f.Add(k0sNode())
	f.Add(k3sNode())
	f.Add("process 1 0 \x1f\nmanifest a b\nconnection a b c d\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSight(text)
		if err != nil {
			return
		}
		if found, err := detect("auto", testNode(), s); err == nil {
			_, _, _ = found.config(), argsOf(found.processes), found.String()
		}
		if seen, err := inspect(testNode(), "auto", s, nothingToRead); err != nil || (seen.Profile == "") != (len(seen.Refused) == len(detectable)) {
			t.Errorf("%+v, %v", seen, err)
		}
	})
}

// FuzzParseProfile tries profiles on recorded nodes: one that is read says something of each.
func FuzzParseProfile(f *testing.F) {
	for _, name := range detectable {
		b, err := embedded.ReadFile("profiles/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	var nodes []*sight
	for _, text := range []string{kubeadmNode(), k3sNode(), k0sNode(), systemdNode + systemdUnits} {
		s, err := parseSight(text)
		if err != nil {
			f.Fatal(err)
		}
		nodes = append(nodes, s)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseProfile("mine", b)
		if err != nil {
			return
		}
		for _, s := range nodes {
			found, err := p.fit(testNode(), s)
			if err != nil {
				continue
			}
			c := found.config()
			for _, one := range p.Components {
				group := found.Group(one.Name)
				if len(group) == 1 || len(group) > 0 && !slices.Contains(group, one.Name) {
					t.Errorf("%s is one process with %v", one.Name, group)
				}
			}
			if len(c.Components) == 0 || found.String() == "" {
				t.Errorf("%+v", c)
			}
		}
	})
}
