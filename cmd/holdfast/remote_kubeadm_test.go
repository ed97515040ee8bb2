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

// bedPower are the power commands of a node of kind. Its network goes first, so that its peers
// receive neither FIN nor RST.
const bedPower = `      off: docker exec "$HOLDFAST_NODE" ip link set eth0 down && docker kill "$HOLDFAST_NODE" >/dev/null
      on: docker start "$HOLDFAST_NODE" >/dev/null
      status: docker inspect -f '{{if .State.Running}}on{{else}}off{{end}}' "$HOLDFAST_NODE"
`

// TestKindRemoteForReal runs a profile, smoke by default, on a control plane that kind and
// kubeadm made without holdfast, over SSH. No requirement fails, and nothing is left on the
// nodes. It needs root, sshd and the setup in docs/kind.md:
//
//	HOLDFAST_TEST_KIND=1 HOLDFAST_TEST_PROFILE=core go test ./cmd/holdfast -run TestKindRemoteForReal -v -timeout 60m
func TestKindRemoteForReal(t *testing.T) {
	if os.Getenv("HOLDFAST_TEST_KIND") == "" {
		t.Skip("set HOLDFAST_TEST_KIND=1")
	}
	const name = "holdfast-bed"
	c := commandLine{t: t}
	f := &foreign{commandLine: c, dir: t.TempDir()}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Symlink(exe, filepath.Join(f.dir, "holdfast")),
		exec.Command("go", "build", "-o", filepath.Join(f.dir, "kind"), "sigs.k8s.io/kind").Run(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	authorized := f.writeSSH()
	out, _ := c.do(exitPass, "kind", "image", "-o", "json")
	var images struct{ Nodes []struct{ Name string } }
	if err := json.Unmarshal([]byte(out), &images); err != nil || len(images.Nodes) == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	engine, _ := c.do(exitPass, "kind", "engine")
	script, err := filepath.Abs("testdata/kubeadm-bed.sh")
	if err != nil {
		t.Fatal(err)
	}
	// in runs a command in the engine's network, with the directory of the test as its own.
	in := func(command string, args ...string) (string, int) {
		t.Helper()
		head := engine + "\ncd " + f.dir + "\nPATH=$PATH:" + f.dir + "\n"
		return c.try(append([]string{"kind", "engine", "shell", "--", "bash", "-ec", head + command, "bash"}, args...)...)
	}
	t.Cleanup(func() { in("kind delete cluster --name " + name) })
	if out, code := in(`sh "$@"`, script, images.Nodes[0].Name, authorized, name); code != exitPass {
		t.Fatalf("exit code %d:\n%s", code, out)
	}

	text := "apiVersion: holdfast.dev/v1alpha1\nkind: Inventory\nmetadata: {name: theirs}\nspec:\n" +
		"  ssh: [-F, " + filepath.Join(f.dir, "ssh_config") + "]\n  kubeconfig: " + filepath.Join(f.dir, "kubeconfig") + "\n" +
		fmt.Sprintf("  loadBalancer: {server: \"https://%s:6443\", healthCheck: {interval: 3s, timeout: 3s, fall: 2}}\n  nodes:\n", strings.TrimSpace(f.read("balancer.txt")))
	for line := range strings.Lines(f.read("nodes.txt")) {
		node, address, _ := strings.Cut(strings.TrimSpace(line), " ")
		text += fmt.Sprintf("  - name: %s\n    address: %s\n    ssh: %s\n    power:\n%s", node, address, address, bedPower)
	}
	inventory := f.write("nodes.yaml", text)
	onNodes := func() (all string) {
		t.Helper()
		for line := range strings.Lines(f.read("nodes.txt")) {
			node, _, _ := strings.Cut(line, " ")
			out, code := in("docker exec -i " + node + " sh -s <<'EOF'\n" + listScript + "EOF")
			if code != exitPass {
				t.Fatalf("%s: exit code %d:\n%s", node, code, out)
			}
			all += node + ":\n" + out
		}
		return all
	}
	before := onNodes()
	for _, step := range []string{
		"holdfast profile detect " + name + "-control-plane --inventory " + inventory,
		"holdfast consent --inventory " + inventory + " --level process,network,power,quorum-loss,data | kubectl --kubeconfig kubeconfig apply -f -",
		"holdfast inventory check " + inventory,
	} {
		out, code := in(step)
		t.Log(out)
		if code != exitPass {
			t.Fatalf("%s: exit code %d", step, code)
		}
	}
	profile := cmp.Or(os.Getenv(remoteProfile), "smoke")
	said, code := in("holdfast run --inventory " + inventory + " --profile " + profile + " --out results")
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
	out, _ = in("holdfast inventory release " + inventory)
	t.Log(out)
	if after := onNodes(); after != before {
		t.Errorf("on the nodes there was\n%s\nand there is\n%s", before, after)
	}
}

func (f *foreign) read(name string) string {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(b)
}
