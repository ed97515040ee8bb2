package remote

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func nothingToRead(*found) error { return nil }

// TestInspect recognizes each recorded node, and says why the profiles before do not fit.
func TestInspect(t *testing.T) {
	for _, tc := range []struct{ name, text, down string }{
		{"kubeadm", kubeadmNode(), "its shim is stopped"},
		{"rke2", strings.ReplaceAll(kubeadmNode(), "/etc/kubernetes/manifests/", "/var/lib/rancher/rke2/agent/pod-manifests/"), "its shim is stopped"},
		{"k3s", k3sNode(), "killed at each start"},
		{"k0s", k0sNode(), "killed at each start"},
		{"systemd", systemdNode + systemdUnits, "systemctl stop"},
		{"processes", systemdNode, "killed at each start"},
	} {
		s, err := parseSight(tc.text)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := inspect(testNode(), "auto", s, nothingToRead)
		if err != nil || seen.Profile != tc.name {
			t.Errorf("%s: %+v, %v", tc.name, seen, err)
			continue
		}
		for i, name := range detectable {
			if name == tc.name {
				break
			}
			if len(seen.Refused) <= i || seen.Refused[i].Profile != name || seen.Refused[i].Why == "" {
				t.Errorf("%s: refused %+v", tc.name, seen.Refused)
			}
		}
		for _, c := range seen.Components {
			if c.Name == framework.APIServer && (c.PID == 0 || c.KeptDown != tc.down || c.Parent == "" || (len(c.With) > 0) != (tc.name == "k3s")) {
				t.Errorf("%s: %+v", tc.name, c)
			}
		}
	}
}

// TestInspectRefuses changes one thing of each recorded node, which its profile names.
func TestInspectRefuses(t *testing.T) {
	change := strings.Replace
	for _, tc := range []struct{ what, profile, text, want string }{
		{"process", "kubeadm", change(kubeadmNode(), "kube-apiserver\x1f", "kube-api\x1f", 1), "no process kube-apiserver that containerd-shim-runc-v2 started"},
		{"parent", "kubeadm", change(kubeadmNode(), "process 201 200 ", "process 201 60 ", 1), "no process kube-apiserver that containerd-shim-runc-v2 started"},
		{"port", "kubeadm", change(kubeadmNode(), "--secure-port=6443", "--secure-port=7443", 1), "serves on port 7443, but the inventory says 6443"},
		{"manifest", "kubeadm", change(kubeadmNode(), "manifest /etc/kubernetes/manifests/kube-apiserver.yaml", "manifest /x", 1), "kube-apiserver is running, and /etc/kubernetes/manifests/kube-apiserver.yaml is missing"},
		{"unit", "kubeadm", kubeadmNode() + "unit 60 kubelet-other.service\n", "node-agent runs in the systemd unit kubelet-other.service, and not in kubelet.service"},
		{"manifest", "rke2", kubeadmNode(), "etcd is running, and /var/lib/rancher/rke2/agent/pod-manifests/etcd.yaml is missing"},
		{"process", "k3s", change(k3sNode(), "k3s server", "k3s agent", 1), "no process k3s server"},
		{"port", "k3s", change(k3sNode(), "listen 192B", "listen 192C", 1), "no process listens on port 6443"},
		{"parent", "k0s", change(k0sNode(), "process 72 70 ", "process 72 1 ", 1), "no process kube-apiserver that k0s started"},
		{"unit", "systemd", systemdNode + "unit 20 etcd.service\n", "kube-apiserver runs in no systemd unit"},
		{"process", "processes", change(systemdNode, "kube-apiserver", "api", 1), "no process kube-apiserver"},
	} {
		s, err := parseSight(tc.text)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := inspect(testNode(), tc.profile, s, nothingToRead)
		if err != nil || seen.Profile != "" || len(seen.Refused) != 1 || !strings.Contains(seen.Refused[0].Why, tc.want) {
			t.Errorf("%s of %s: %+v, %v; want %s", tc.what, tc.profile, seen, err, tc.want)
		}
	}
}
