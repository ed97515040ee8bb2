package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports"
)

// foreign is a cluster that holdfast reaches like one it did not create: over SSH, with sshd on
// each node. The local provider created it, so that to an agent its components are processes that a
// supervisor restarts, or kind did (see newKubeadmBed).
type foreign struct {
	commandLine
	dir, inventory     string
	text, distribution string            // of the inventory; text is without its distribution
	dirs               map[string]string // the machine's disk, by node
	engine             string            // kind: the shell's commands after which docker finds the engine
}

// localProfile is the profile of the local provider, which names its etcd differently.
const localProfile = `components:
- {name: etcd, command: holdfast-etcd}
- {name: kube-apiserver, command: kube-apiserver}
- {name: kube-controller-manager, command: kube-controller-manager}
- {name: kube-scheduler, command: kube-scheduler}
`

// sshdScript starts sshd on a node, and gives the node its own copy of what an agent writes to:
// otherwise nodes share the machine's files. With SHLVL, bash does not read root's .bashrc for each
// command, which on some machines takes a second.
const sshdScript = `set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd /run/etc/up /run/etc/work
cp /etc/hosts /etc/resolv.conf /run/etc/up/
mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/etc/up,workdir=/run/etc/work /etc
mount -t tmpfs tmpfs /usr/local/bin
mount -t tmpfs tmpfs /var/lib
ssh-keygen -q -t ed25519 -N '' -f /run/hostkey
cp "$1" /run/authorized
printf 'HostKey /run/hostkey\nAuthorizedKeysFile /run/authorized\nStrictModes no\nUsePAM no\nPidFile none\nSetEnv SHLVL=2\n' >/run/sshd.conf
exec "$2" -f /run/sshd.conf -E /run/sshd.log
`

// listScript prints what an agent may leave on a node.
const listScript = `ls -d /usr/local/bin/* /etc/holdfast /run/holdfast /var/lib/holdfast 2>/dev/null
nft list tables 2>/dev/null | grep holdfast
for p in /proc/[0-9]*; do read -r name <$p/comm && case "$name" in holdfast-node-*) echo "$name";; esac; done 2>/dev/null
true
`

// newForeign creates the cluster, with these further arguments of up.
func newForeign(t testing.TB, up ...string) *foreign {
	c := newCommandLine(t)
	sshd := ""
	for _, path := range []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd"} {
		if _, err := os.Stat(path); err == nil {
			sshd = path
		}
	}
	if _, err := exec.LookPath("ssh"); err != nil || sshd == "" || os.Getuid() != 0 {
		t.Skip("takes root, ssh and sshd (Debian packages openssh-client and openssh-server)")
	}
	f := &foreign{commandLine: c, dir: t.TempDir(), dirs: map[string]string{}}
	authorized := f.writeSSH()
	f.distribution = "./local.yaml"
	f.write("local.yaml", localProfile)
	script := f.write("sshd.sh", sshdScript)
	c.up(append([]string{"--name", "foreign"}, up...)...)
	text := "apiVersion: holdfast.dev/v1alpha1\nkind: Inventory\nmetadata: {name: theirs}\nspec:\n" +
		"  ssh: [-F, " + filepath.Join(f.dir, "ssh_config") + "]\n"
	nodes := "  nodes:\n"
	for _, h := range f.status().Hosts {
		if h.Etcd == nil {
			continue
		}
		c.do(exitPass, "shell", h.Name, "--", "sh", script, authorized, sshd)
		f.dirs[h.Name] = h.Dir
		nodes += "  - {name: " + h.Name + ", address: " + h.Address + ", ssh: " + h.Address + "}\n"
		if !strings.Contains(text, "kubeconfig") {
			text += "  kubeconfig: " + filepath.Join(h.Dir, "pki", "admin.conf") + "\n"
		}
	}
	for _, e := range f.status().Entrances {
		if e.Name == "balancer" {
			text += "  loadBalancer: {server: \"" + e.URL + "\", healthCheck: {interval: 1s, timeout: 1s, fall: 2}}\n"
		}
	}
	f.text = text + nodes
	f.inventory = f.write("nodes.yaml", f.text+"  distribution: "+f.distribution+"\n")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, filepath.Join(f.dir, "holdfast")); err != nil {
		t.Fatal(err)
	}
	// No test binary is known to be built from the same commit, so inside names it.
	buildAgent(t, f.agent())
	return f
}

// agentSize is the most that the node agent may have, in bytes: it is copied to each node.
const agentSize = 15 << 20

// buildAgent builds the node agent as `make build` does. holdfast would copy the test binary to the
// nodes, which is several times as large.
func buildAgent(t testing.TB, file string) {
	t.Helper()
	if out, err := exec.Command("make", "-C", "../..", "agent", "AGENT="+file).CombinedOutput(); err != nil {
		t.Fatalf("building the node agent: %v\n%s", err, out)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > agentSize {
		t.Errorf("the node agent has %d bytes, and %d are allowed: a new import, or a larger library?", info.Size(), agentSize)
	}
}

// writeSSH writes an ssh configuration with a new key, and returns the file of its public half.
func (f *foreign) writeSSH() (authorized string) {
	f.t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "test")
	if err != nil {
		f.t.Fatal(err)
	}
	own, err := ssh.NewPublicKey(public)
	if err != nil {
		f.t.Fatal(err)
	}
	key := f.write("id", string(pem.EncodeToMemory(block)))
	f.write("ssh_config", "Host *\n  User root\n  IdentityFile "+key+"\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n")
	return f.write("id.pub", string(ssh.MarshalAuthorizedKey(own)))
}

func (f *foreign) write(name, text string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// inside returns the arguments that run holdfast in a place that can reach the nodes.
func (f *foreign) inside(args ...string) []string {
	args = append([]string{"env", agent.ProgramEnv + "=" + f.agent(), filepath.Join(f.dir, "holdfast")}, args...)
	if f.engine != "" {
		return f.inEngine(`"$@"`, args...)
	}
	return append([]string{"shell", "--"}, args...)
}

// onNode returns the arguments of holdfast that run a script's file on a node.
func (f *foreign) onNode(node, script string, args ...string) []string {
	if f.engine != "" {
		return f.inEngine(`docker exec -i "$@" <`+script, append([]string{node, "sh", "-s"}, args...)...)
	}
	return append([]string{"shell", node, "--", "sh", script}, args...)
}

// kubectl returns the arguments of holdfast that run kubectl.
func (f *foreign) kubectl(args ...string) []string {
	if f.engine != "" {
		return f.inEngine(`kubectl --kubeconfig kubeconfig "$@"`, args...)
	}
	return append([]string{"kubectl"}, args...)
}

// etcdctl returns the arguments of holdfast that run etcdctl with the first node's member.
func (f *foreign) etcdctl(args ...string) []string {
	node := f.nodes()[0]
	if f.engine == "" {
		return append([]string{"shell", node, "--", "etcdctl"}, args...)
	}
	return f.inEngine(`tar=$(mktemp -d)
docker exec `+node+` tar -C /etc/kubernetes/pki/etcd -c ca.crt healthcheck-client.crt healthcheck-client.key | tar -C $tar -x
etcdctl --endpoints "https://$(head -n 1 nodes.txt | cut -d ' ' -f 2):2379" --cacert $tar/ca.crt --cert $tar/healthcheck-client.crt --key $tar/healthcheck-client.key "$@"
rm -r $tar`, args...)
}

// ready reports whether the cluster is ready, and what is not.
func (f *foreign) ready() (ok bool, problems []string) {
	if f.engine == "" {
		s := f.status()
		return s.Ready, s.Problems
	}
	for line := range strings.Lines(f.read("nodes.txt")) {
		node, address, _ := strings.Cut(strings.TrimSpace(line), " ")
		if said, code := f.try(f.kubectl("--server=https://"+address+":6443", "--request-timeout=5s", "get", "--raw=/readyz")...); code != exitPass {
			problems = append(problems, node+": "+said)
		}
	}
	return len(problems) == 0, problems
}

// agent is the path of the node agent that is copied to the nodes.
func (f *foreign) agent() string { return filepath.Join(f.dir, "holdfast-agent") }

// consent records the owner's consent to levels.
func (f *foreign) consent(levels string) {
	f.t.Helper()
	manifest, _ := f.do(exitPass, f.inside("consent", "--inventory", f.inventory, "--level", levels)...)
	f.do(exitPass, f.kubectl("apply", "-f", f.write("consent.yaml", manifest))...)
}

// left returns what agents left on the nodes.
func (f *foreign) left() string {
	f.t.Helper()
	all := ""
	for _, n := range f.nodes() {
		out, _ := f.do(exitPass, f.onNode(n, f.write("list.sh", listScript))...)
		all += out
	}
	return all
}

// TestClusterRemote takes over a cluster that holdfast did not create, with growing consent of
// its owner: none, read-only, and faults. Nothing is left on the nodes; TestClusterKilled checks
// that after runs that are killed, and TestClusterHandmade has the verdicts on a cluster at rest.
func TestClusterRemote(t *testing.T) {
	t.Parallel()
	f := newForeign(t)
	out := func(name string) string { return filepath.Join(f.dir, name) }
	run := func(name string, args ...string) []string {
		return f.inside(append([]string{"run", "--inventory", f.inventory, "--out", out(name)}, args...)...)
	}
	_, text := f.do(exitUsage, run("none", "--profile", "observe")...)
	f.contains(text, "the owner of the cluster has not consented")
	text, _ = f.do(exitFail, f.inside("inventory", "check", f.inventory)...)
	f.contains(text, "ok    load balancer", "FAIL  consent", "distribution local: etcd, kube-apiserver, kube-controller-manager, kube-scheduler")
	text, _ = f.do(exitPass, f.inside("profile", "check", "node-1", "--inventory", f.inventory, "--output=json")...)
	if err := followsSchema("profile check", text); err != nil {
		t.Error(err)
	}
	f.contains(text, `"profile": "local"`, `"keptDown": "killed at each start"`)
	text, _ = f.do(exitPass, f.inside("profile", "detect", "node-1", "--inventory", f.inventory)...)
	f.contains(text, "profile kubeadm does not fit: no process kube-apiserver that containerd-shim-runc-v2 started", "profile processes fits")
	text, _ = f.do(exitFail, f.inside("profile", "check", "node-1", "--inventory", f.inventory, "--profile", "k3s")...)
	f.contains(text, "profile k3s does not fit: no process k3s server")
	text, _ = f.do(exitPass, run("none", "--profile", "core", "--dry-run")...)
	f.contains(text, "with the owner's consent: on each node: program /usr/local/bin/holdfast-node-agent", "if that includes power, quorum-loss or data: a snapshot of etcd", "injects kill on", "nothing has been touched")
	if left := f.left(); left != "" {
		t.Errorf("without consent there is on the nodes:\n%s", left)
	}

	// Read-only, by the Ginkgo suite, whose results are the same.
	f.consent("read-only")
	suite := out("ha.test")
	if text, err := exec.Command("go", "test", "-c", "-ldflags=-s -w", "-o", suite, "../../suites").CombinedOutput(); err != nil {
		t.Fatalf("building the suite: %v\n%s", err, text)
	}
	text, code := f.try("shell", "--", suite, "--provider", "remote", "--attach", f.inventory, "--profile", "observe", "--out", out("observed"))
	if code != 0 && !strings.Contains(text, " is inconclusive: ") {
		t.Fatalf("exit code %d:\n%s", code, text)
	}
	verdicts := f.verdicts(out("observed"))
	for id, want := range map[string]judge.Verdict{"HA-QR-001": judge.Pass, "HA-EP-001": judge.Pass, "HA-SEC-003": judge.Pass, "HA-TOP-001": judge.NotApplicable, "HA-LE-001": judge.NotApplicable} {
		if got := verdicts[id]; got != want && got != judge.Inconclusive {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
	if left := f.left(); left != "" {
		t.Errorf("with a look at it there is on the nodes:\n%s", left)
	}

	// Faults, but not the loss of quorum.
	f.consent("process,network")
	text, code = f.try(run("broken", "--scenario", "etcd-member-isolated,quorum-lost", "-f", f.write("defragmented.yaml", defragmentedScenario))...)
	if code != exitPass && code != exitInconclusive {
		t.Fatalf("exit code %d:\n%s", code, text)
	}
	verdicts = f.verdicts(out("broken"))
	for id, want := range map[string]judge.Verdict{"HA-QR-002": judge.Pass, "HA-QR-009": judge.NotApplicable, "MY-001": judge.Pass} {
		if got := verdicts[id]; got != want && got != judge.Inconclusive {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
	seen, err := record.Read(record.Dir(out("broken"), "defragmented"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(seen.Faults, func(r record.Timed[record.Fault]) bool { return r.V.Phase == record.FaultInjected && r.V.Proven }) {
		t.Errorf("no proof of the defragmentation: %+v", seen.Faults)
	}
	if left := f.left(); left != "" {
		t.Errorf("with faults there is left on the nodes:\n%s", left)
	}
}

// defragmentedScenario has a fault whose proof is a metric of etcd, which the harness reads through the
// node's agent.
const defragmentedScenario = `apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: defragmented}
spec:
  timeline:
  - wait: 2s
  - inject: {fault: defragment, target: etcd/2, as: tidy}
  - wait: 2s
  - heal: tidy
  requirements:
  - {id: MY-001, judge: no-lost-write, fault: tidy}
`

func (f *foreign) verdicts(dir string) map[string]judge.Verdict {
	f.t.Helper()
	r, err := reports.Load(dir)
	if err != nil {
		f.t.Fatal(err)
	}
	all := map[string]judge.Verdict{}
	for _, one := range r.All() {
		all[one.ID] = one.Verdict
	}
	return all
}
