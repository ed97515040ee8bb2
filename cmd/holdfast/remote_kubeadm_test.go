package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/reports"
)

// remoteProfile is the environment variable with the profile that TestKindRemoteForReal runs.
const remoteProfile = "HOLDFAST_TEST_PROFILE"

// bedPowerOff and bedPowerOn cut and restore the power of a node of kind. Its network goes first, so
// that its peers receive neither FIN nor RST.
const (
	bedPowerOff = `docker exec "$HOLDFAST_NODE" ip link set eth0 down && docker kill "$HOLDFAST_NODE" >/dev/null`
	bedPowerOn  = `docker start "$HOLDFAST_NODE" >/dev/null`
	bedPower    = "      off: " + bedPowerOff + "\n      on: " + bedPowerOn + `
      status: docker inspect -f '{{if .State.Running}}on{{else}}off{{end}}' "$HOLDFAST_NODE"
`
)

// newKubeadmBed has kind and kubeadm create a control plane without holdfast, which consents to
// faults of these levels. It needs root, sshd and the setup in docs/kind.md.
func newKubeadmBed(t *testing.T, levels string, arguments ...string) *foreign {
	if os.Getenv("HOLDFAST_TEST_KIND") == "" {
		t.Skip("set HOLDFAST_TEST_KIND=1")
	}
	const name = "holdfast-bed"
	f := &foreign{commandLine: commandLine{t: t}, dir: t.TempDir(), dirs: map[string]string{}}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Symlink(exe, filepath.Join(f.dir, "holdfast")),
		os.Symlink(exe, filepath.Join(f.dir, "etcdctl")),
		exec.Command("go", "build", "-o", filepath.Join(f.dir, "kind"), "sigs.k8s.io/kind").Run(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	buildAgent(t, f.agent())
	authorized := f.writeSSH()
	out, _ := f.do(exitPass, "kind", "image", "-o", "json")
	var images struct{ Nodes []struct{ Name string } }
	if err := json.Unmarshal([]byte(out), &images); err != nil || len(images.Nodes) == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	f.engine, _ = f.do(exitPass, "kind", "engine")
	script, err := filepath.Abs("testdata/kubeadm-bed.sh")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.try(f.inEngine("kind delete cluster --name " + name)...) })
	f.do(exitPass, f.inEngine(`sh "$@"`, append([]string{script, images.Nodes[0].Name, authorized, name}, arguments...)...)...)

	text := "apiVersion: holdfast.dev/v1alpha1\nkind: Inventory\nmetadata: {name: theirs}\nspec:\n" +
		"  ssh: [-F, " + filepath.Join(f.dir, "ssh_config") + "]\n  kubeconfig: " + filepath.Join(f.dir, "kubeconfig") + "\n" +
		fmt.Sprintf("  loadBalancer: {server: \"https://%s:6443\", healthCheck: {interval: 3s, timeout: 3s, fall: 2}}\n  nodes:\n", strings.TrimSpace(f.read("balancer.txt")))
	for line := range strings.Lines(f.read("nodes.txt")) {
		node, address, _ := strings.Cut(strings.TrimSpace(line), " ")
		f.dirs[node] = "/var/lib/etcd"
		text += fmt.Sprintf("  - name: %s\n    address: %s\n    ssh: %s\n    power:\n%s", node, address, address, bedPower)
	}
	f.inventory = f.write("nodes.yaml", text)
	out, _ = f.do(exitPass, f.inside("profile", "detect", f.nodes()[0], "--inventory", f.inventory)...)
	t.Log(out)
	f.consent(levels)
	out, _ = f.do(exitPass, f.inside("inventory", "check", f.inventory)...)
	t.Log(out)
	return f
}

// inEngine returns the arguments of holdfast that run a shell command in the network of the engine,
// with the directory of the test as its own.
func (f *foreign) inEngine(command string, args ...string) []string {
	head := f.engine + "\ncd " + f.dir + "\nPATH=$PATH:" + f.dir + "\n"
	return append([]string{"kind", "engine", "shell", "--", "bash", "-ec", head + command, "bash"}, args...)
}

// TestKindRemoteForReal runs a profile, smoke by default, on the cluster of newKubeadmBed. No
// requirement fails, and nothing is left on the nodes:
//
//	HOLDFAST_TEST_KIND=1 HOLDFAST_TEST_PROFILE=core go test ./cmd/holdfast -run TestKindRemoteForReal -v -timeout 60m
func TestKindRemoteForReal(t *testing.T) {
	f := newKubeadmBed(t, "process,network,power,quorum-loss,data")
	before := f.left()
	profile := cmp.Or(os.Getenv(remoteProfile), "smoke")
	said, code := f.try(f.inside("run", "--inventory", f.inventory, "--profile", profile, "--out", "results")...)
	if code != exitPass && code != exitInconclusive {
		t.Errorf("exit code %d", code)
	}
	t.Log(said)
	results, err := reports.Load(filepath.Join(f.dir, "results"))
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	counts := map[judge.Verdict]int{}
	for _, r := range results.All() {
		counts[r.Verdict]++
		if r.Verdict == judge.Fail {
			t.Errorf("%s: %s", r.ID, r.Sentence)
		}
	}
	if counts[judge.Pass] < 20 {
		t.Errorf("%v, want that most pass", counts)
	}
	out, _ := f.try(f.inside("inventory", "release", f.inventory)...)
	t.Log(out)
	if after := f.left(); after != before {
		t.Errorf("on the nodes there was\n%s\nand there is\n%s", before, after)
	}
}

// TestKindRemoteKilledForReal is TestClusterKilled on the cluster of newKubeadmBed, whose agents
// systemd keeps. In every other trial, a node loses its power together with the harness: what
// undoes the fault is on its disk.
//
//	HOLDFAST_TEST_KIND=1 HOLDFAST_TEST_KILLS=31 go test ./cmd/holdfast -run TestKindRemoteKilledForReal -v -timeout 2h
func TestKindRemoteKilledForReal(t *testing.T) {
	f := newKubeadmBed(t, "process,network,data", "67108864")
	f.trials(seedOf(t), killsOf(t, 10), kubeadmKillModes)
}

// kubeadmNodeScript is nodeScript for a node of kind, on which containers change much by themselves.
// Of manifests, it compares what docs/remote.md does not except: the lines in any order and form, but
// no comments and no annotation of holdfast.
const kubeadmNodeScript = `find /usr/local/bin /etc/holdfast /run/holdfast /var/lib/holdfast /etc/systemd/system /etc/kubernetes 2>/dev/null | sort
find "$1"* -name '*holdfast*' 2>/dev/null | sort
find /etc/kubernetes -type f -not -path '*/manifests/*' -exec sha256sum {} + -exec stat -c '%a %u:%g %n' {} + | sort
for f in /etc/kubernetes/manifests/*; do
	echo "$f $(stat -c '%a %u:%g' "$f") $(sed -e '/holdfast.renewed/d' -e 's/^[ -]*//' -e '/^annotations:$/d' -e '/^#/d' -e "s/[\"']//g" "$f" | sort | sha256sum)"
done
nft list tables | grep holdfast
grep holdfast /proc/self/mounts
grep . /proc/sys/net/ipv4/conf/all/rp_filter /proc/sys/net/ipv4/conf/eth0/rp_filter
` + processScript

func (f *foreign) read(name string) string {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(b)
}
