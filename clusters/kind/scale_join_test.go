package kind

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
)

// theirNode is as much as counts of what docker 20.10 says of a container of kind's.
const theirNode = `{
 "Name": "/x-control-plane",
 "Config": {
  "Image": "holdfast/node:v1.37.1",
  "Labels": {"io.x-k8s.kind.cluster": "x", "io.x-k8s.kind.role": "control-plane"},
  "Env": ["KUBECONFIG=/etc/kubernetes/admin.conf", "container=docker"],
  "Volumes": {"/var": {}}
 },
 "HostConfig": {
  "Privileged": true,
  "Binds": ["/lib/modules:/lib/modules:ro", "/d/audit-policy.yaml:/etc/kubernetes/audit-policy.yaml:ro", "/d/patches-0:/etc/kubernetes/patches:ro"],
  "Tmpfs": {"/run": "", "/tmp": ""},
  "SecurityOpt": ["seccomp=unconfined", "apparmor=unconfined", "label=disable"],
  "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 1},
  "Init": false,
  "CgroupnsMode": "private",
  "UsernsMode": "",
  "Devices": [{"PathOnHost": "/dev/fuse", "PathInContainer": "/dev/fuse", "CgroupPermissions": "rwm"}]
 }
}`

func TestLikeContainer(t *testing.T) {
	var model docker.Container
	if err := json.Unmarshal([]byte(theirNode), &model); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(likeContainer(model, "x-control-plane4", "holdfast/node:v1.37.1", "holdfast-x", netip.MustParseAddr("10.88.0.153")), " ")
	want := "run --detach --tty --name x-control-plane4 --hostname x-control-plane4 --network holdfast-x --ip 10.88.0.153" +
		" --label io.x-k8s.kind.cluster=x --label io.x-k8s.kind.role=control-plane --privileged" +
		" --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt label=disable" +
		" --tmpfs /run --tmpfs /tmp --volume /var --volume /lib/modules:/lib/modules:ro" +
		" --volume /d/audit-policy.yaml:/etc/kubernetes/audit-policy.yaml:ro" +
		" --env KUBECONFIG=/etc/kubernetes/admin.conf --env container=docker --restart on-failure:1 --init=false" +
		" --cgroupns private --device /dev/fuse:/dev/fuse:rwm holdfast/node:v1.37.1"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// theirConfig is the end of what kind writes for kubeadm.
func theirConfig(kubeletArgs string) string {
	return fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
networking:
  podSubnet: 10.244.0.0/16
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint:
  advertiseAddress: 10.88.0.3
---
apiVersion: kubeadm.k8s.io/v1beta4
controlPlane:
  localAPIEndpoint:
    advertiseAddress: 10.88.0.3
    bindPort: 6443
discovery:
  bootstrapToken:
    apiServerEndpoint: x-external-load-balancer:6443
    token: abcdef.0123456789abcdef
    unsafeSkipCAVerification: true
kind: JoinConfiguration
nodeRegistration:
  criSocket: unix:///run/containerd/containerd.sock
  kubeletExtraArgs:
%s
patches:
  directory: /etc/kubernetes/patches
skipPhases:
- preflight
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
`, kubeletArgs)
}

func TestJoinConfiguration(t *testing.T) {
	for name, args := range map[string]string{
		"v1beta4": `  - {name: node-ip, value: 10.88.0.3}
  - {name: provider-id, value: "kind://docker/x/x-control-plane"}
  - {name: node-labels, value: topology.kubernetes.io/zone=a}`,
		"v1beta3": `    node-ip: 10.88.0.3
    provider-id: kind://docker/x/x-control-plane
    node-labels: topology.kubernetes.io/zone=a`,
	} {
		t.Run(name, func(t *testing.T) {
			b, err := joinConfiguration([]byte(theirConfig(args)), "x-control-plane4", netip.MustParseAddr("10.88.0.153"), "b", "abc.def")
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"advertiseAddress: 10.88.0.153", "token: abc.def", "kind://docker/x/x-control-plane4", "zone=b",
				"bindPort: 6443\n", "- preflight", "\n  podSubnet: 10.244.0.0/16", "failCgroupV1: false", "apiServerEndpoint: x-external-load-balancer:6443"} {
				if !strings.Contains(string(b), want) {
					t.Errorf("no %q in\n%s", want, b)
				}
			}
			for _, not := range []string{"10.88.0.3", "InitConfiguration", "patches", "abcdef"} {
				if strings.Contains(string(b), not) {
					t.Errorf("%q in\n%s", not, b)
				}
			}
		})
	}
	for bad, says := range map[string]string{
		"kind: ClusterConfiguration": "it has no JoinConfiguration",
		"kind: JoinConfiguration":    "not from a control-plane node",
	} {
		if _, err := joinConfiguration([]byte(bad), "n", netip.MustParseAddr("10.88.0.153"), "b", "t"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// encodedFiles is what a node gives that another one is made like.
func encodedFiles(t *testing.T) []byte {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{"kind/kubeadm.conf": theirConfig("    node-ip: 10.88.0.3")}
	for _, file := range shared {
		all["etc/kubernetes/"+file] = file
	}
	for file, text := range all {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("sh", "-c", "cd "+root+" && tar -cf - -C etc/kubernetes "+strings.Join(shared, " ")+" -C ../.. kind/kubeadm.conf | base64 -w 0").Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The first node does not answer: the second one gives what is needed.
func TestSponsor(t *testing.T) {
	dir := fakeDocker(t, `case "$2" in
x-control-plane) echo "cannot exec in a paused container" >&2; exit 1;;
*) cat $DIR/files;;
esac`)
	if err := os.WriteFile(filepath.Join(dir, "files"), encodedFiles(t), 0o600); err != nil {
		t.Fatal(err)
	}
	c := scaled("x-control-plane", "x-control-plane2")
	n, files, err := c.sponsor(t.Context())
	if err != nil || n != c.nodes[1] {
		t.Fatalf("%v, %v", n, err)
	}
	if got := string(files["/etc/kubernetes/pki/etcd/ca.key"]); got != "pki/etcd/ca.key" || files[kubeadmConfig] == nil || len(files) != len(shared)+1 {
		t.Errorf("%q", files)
	}
	if _, _, err := scaled("x-control-plane").sponsor(t.Context()); err == nil || !strings.Contains(err.Error(), "paused") {
		t.Error(err)
	}
	if _, err := sharedFiles(""); err == nil || !strings.Contains(err.Error(), "admin.conf is missing") {
		t.Error(err)
	}
}

// A node is like its sponsor, has a token of its own, which goes, and says why it did
// not join.
func TestJoin(t *testing.T) {
	dir := fakeDocker(t, `case "$*" in
"container inspect "*) echo "["; cat $DIR/node; echo "]";;
*"base64 -w 0") cat $DIR/files;;
*"kubeadm token create "*) echo abc.def;;
"cp - "*) cat > $DIR/put;;
*"kubeadm join "*) if [ -f $DIR/fails ]; then echo "etcd cluster is not healthy" >&2; exit 1; fi;;
esac`)
	for name, b := range map[string][]byte{"files": encodedFiles(t), "node": []byte(theirNode)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := scaled("x-control-plane")
	c.o.Progress, c.o.LogDir = func(string) {}, "/logs"
	n := c.newNode("x-control-plane4", netip.MustParseAddr("10.88.0.153"), controlPlaneRole)
	n.spec = c.nodeSpec(4)
	if err := c.join(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(filepath.Join(dir, "calls"))
	at := 0
	for _, want := range []string{"container inspect x-control-plane\n", "run --detach --tty --name x-control-plane4 ", "systemctl is-active",
		"exec x-control-plane kubeadm token create --ttl 15m0s\n", "cp - x-control-plane4:/\n",
		"exec x-control-plane4 kubeadm join --config /kind/kubeadm.conf\n", "exec x-control-plane kubeadm token delete abc.def\n"} {
		i := strings.Index(string(b[at:]), want)
		if i < 0 {
			t.Fatalf("no %q in its place in:\n%s", want, b)
		}
		at += i
	}
	put, _ := os.ReadFile(filepath.Join(dir, "put"))
	for _, want := range []string{"etc/kubernetes/pki/sa.key", "kind/kubeadm.conf", "token: abc.def", "advertiseAddress: 10.88.0.153"} {
		if !strings.Contains(string(put), want) {
			t.Errorf("no %q is put there", want)
		}
	}
	for r := tar.NewReader(bytes.NewReader(put)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil || h.Typeflag == tar.TypeReg && h.Mode != 0o600 {
			t.Fatalf("others can read %s, with mode %o, %v", h.Name, h.Mode, err)
		}
	}
	// The image of a sponsor that was upgraded is not of its version.
	c.nodes[0].upgraded = true
	c.o.EnsureImage = func(_ context.Context, version string) (string, error) { return "holdfast/other:" + version, nil }
	if err := c.join(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "calls")); !strings.Contains(string(b), " holdfast/other:"+n.spec.KubernetesVersion+"\n") {
		t.Errorf("the node that joins has another image:\n%s", b)
	}
	c.nodes[0].upgraded, c.o.EnsureImage = false, nil
	// In a cluster of another tool it can be told from the others.
	c.foreign = true
	if err := c.join(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "calls")); strings.Count(string(b), " --label dev.holdfast.added=true ") != 1 {
		t.Errorf("want one node with a label:\n%s", b)
	}
	if err := os.WriteFile(filepath.Join(dir, "fails"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.join(t.Context(), n); err == nil || !strings.Contains(err.Error(), "etcd cluster is not healthy") || !strings.Contains(err.Error(), "/logs") {
		t.Error(err)
	}
	// A version that no node has needs an image of its own.
	c.spec.Spec.KubernetesVersion = "v1.36.3"
	n.spec = c.nodeSpec(5)
	if err := c.join(t.Context(), n); err == nil || !strings.Contains(err.Error(), "no node of Kubernetes v1.36.3 is left") {
		t.Error(err)
	}
}
