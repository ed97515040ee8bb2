package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// nodeScript prints what a fault or an agent may change on a node, whose machine has its disk in
// $1: files, the contents of certificates, configurations and manifests, what is left in or beside
// etcd's data, nftables, mounts, devices with their reverse path filters, listening sockets, and
// processes that are stopped or belong to holdfast. It omits what changes automatically.
const nodeScript = `find /usr/local/bin /etc/holdfast /run/holdfast /var/lib/holdfast /etc/systemd/system /etc/kubernetes /run/*.holdfast 2>/dev/null | sort
find "$1" -name '.holdfast*' 2>/dev/null | sort
find /etc/kubernetes "$1/pki" "$1/config" -type f -exec sha256sum {} + -exec stat -c '%a %u:%g %n' {} + 2>/dev/null | sort
nft list ruleset
cat /proc/self/mounts
ls /sys/class/net
grep . /proc/sys/net/ipv4/conf/*/rp_filter
awk '$4 == "0A" { print "listens: " $2 }' /proc/net/tcp /proc/net/tcp6 | sort
` + processScript

// processScript prints which processes on a node are stopped, belong to holdfast or are components. It
// starts few of its own, since the trials run it all the time.
const processScript = `cat /proc/[0-9]*/stat 2>/dev/null | sed -n 's/^[0-9]* (\(.*\)) T .*/stopped: \1/p' | sort
named() {
	for p in $(grep -lsaE "$2" /proc/[0-9]*/cmdline); do
		read -r name <"${p%cmdline}comm" && echo "$1: $name"
	done 2>/dev/null | sort
}
named 'of holdfast' 'holdfast-nod[e]-|/etc/holdfas[t]/'
named runs 'holdfast-etc[d]|^etc[d]|kube-apiserve[r]|kube-controller-manage[r]|kube-schedule[r]'
true
`

// undoneScript prints for how long the machine has run, in seconds, as soon as no fault is active
// according to the node's agent or no agent is left, within $1 seconds.
const undoneScript = `read -r now _ </proc/uptime
end=$((${now%.*} + $1))
while grep -qE '"(holdUntil|thawAt|crashUntil)":|"(wiped|filled|spoilt|impaired|promises)":[{]"' /var/lib/holdfast/state.json 2>/dev/null; do
	read -r now _ </proc/uptime
	[ "${now%.*}" -lt "$end" ] || { cat /var/lib/holdfast/state.json; exit 1; }
	sleep 0.4
done
read -r now _ </proc/uptime
echo "$now"
`

// theCluster is the name of the state that is on no node: that in etcd.
const theCluster = "the cluster"

// states returns the state of each node and of the cluster by name.
func (f *foreign) states() map[string]string {
	f.t.Helper()
	all := map[string]string{}
	for _, name := range append(f.nodes(), theCluster) {
		all[name] = f.stateOf(name)
	}
	if !strings.Contains(all[theCluster], "key /registry/namespaces/kube-system\n") {
		f.t.Fatalf("etcd cannot be read:\n%s", all[theCluster])
	}
	for _, name := range f.nodes() {
		if !strings.Contains(all[name], "runs: kube-apiserver\n") {
			f.t.Fatalf("the processes of %s cannot be read:\n%s", name, all[name])
		}
	}
	return all
}

func (f *foreign) nodes() []string { return slices.Sorted(maps.Keys(f.dirs)) }

func (f *foreign) stateOf(name string) string {
	f.t.Helper()
	if name == theCluster {
		return f.clusterState()
	}
	script := nodeScript
	if f.engine != "" {
		script = kubeadmNodeScript
	}
	out, _ := f.do(exitPass, f.onNode(name, f.write("node.sh", script), f.dirs[name])...)
	return out
}

// clusterState returns what a fault through etcd or the API may leave: alarms, members, keys, and
// holders of leases. An error is part of it.
func (f *foreign) clusterState() string {
	f.t.Helper()
	etcdctl := func(args ...string) string {
		text, _ := f.try(f.etcdctl(args...)...)
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(etcdctl("get", "", "--prefix", "--keys-only")) {
		if key := strings.TrimSpace(line); tellingKey(key) {
			fmt.Fprintf(&b, "key %s\n", key)
		}
	}
	for _, what := range []string{"alarm", "member"} {
		for line := range strings.Lines(etcdctl(what, "list")) {
			fmt.Fprintf(&b, "%s %s", what, line)
		}
	}
	leases, _ := f.try(f.kubectl("get", "leases", "--namespace=kube-system", `--output=jsonpath={range .items[*]}{.metadata.name}={.spec.holderIdentity}{"\n"}{end}`)...)
	for line := range strings.Lines(leases) {
		fmt.Fprintf(&b, "lease %s\n", leaseWords(strings.TrimSpace(line), f.nodes()))
	}
	return b.String()
}

// tellingKey reports whether a key in etcd may be one that a fault or a run has left; the cluster
// itself writes others at any time.
func tellingKey(key string) bool {
	switch {
	case key == "" || key == "compact_rev_key" || strings.HasPrefix(key, "/registry/events/"):
		return false
	case !strings.HasPrefix(key, "/registry/") || strings.Contains(key, "holdfast"):
		return true
	}
	return slices.ContainsFunc([]string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations", "clusterroles", "clusterrolebindings", "namespaces"},
		func(resource string) bool { return strings.HasPrefix(key, "/registry/"+resource+"/") })
}

// leaseWords returns a line with a lease and its holder without what changes with each takeover:
// which of the nodes it is, and which process.
func leaseWords(line string, nodes []string) string {
	name, holder, _ := strings.Cut(line, "=")
	holder, _, _ = strings.Cut(holder, "_")
	if slices.Contains(nodes, holder) {
		holder = "a node"
	}
	return name + " of " + holder
}

// differing returns the lines that only one of two states has.
func differing(before, now string) string {
	count := map[string]int{}
	for line := range strings.Lines(before) {
		count[strings.TrimSuffix(line, "\n")]--
	}
	for line := range strings.Lines(now) {
		count[strings.TrimSuffix(line, "\n")]++
	}
	var b strings.Builder
	for _, line := range slices.Sorted(maps.Keys(count)) {
		switch n := count[line]; {
		case n < 0:
			fmt.Fprintf(&b, "- %s\n", line)
		case n > 0:
			fmt.Fprintf(&b, "+ %s\n", line)
		}
	}
	return b.String()
}

// awaitBefore waits until states are as before, at most until limit after the harness was killed.
func (f *foreign) awaitBefore(before map[string]string, killed time.Time, limit time.Duration, names ...string) {
	f.t.Helper()
	for _, name := range names {
		left := differing(before[name], f.stateOf(name))
		for left != "" && time.Since(killed) < limit {
			time.Sleep(time.Second)
			left = differing(before[name], f.stateOf(name))
		}
		if left != "" {
			f.t.Errorf("%s is not as before %s after the harness was killed (-), but has (+):\n%s", name, time.Since(killed).Round(time.Second), left)
		}
	}
	f.t.Logf("%s as before %s after the harness was killed", strings.Join(names, ", "), time.Since(killed).Round(100*time.Millisecond))
}

// awaitUndone has nodes watch until no fault is active on them, for limit at most. What it
// returns waits for that, and says for how long the machine had run by then.
func (f *foreign) awaitUndone(limit time.Duration, nodes ...string) func() time.Duration {
	f.t.Helper()
	script := f.write("undone.sh", undoneScript)
	var mu sync.Mutex
	var watches sync.WaitGroup
	var last time.Duration
	var problems []string
	for _, node := range nodes {
		cmd := f.command(f.onNode(node, script, strconv.Itoa(int(limit.Seconds())))...)
		watches.Go(func() {
			out, err := cmd.Output()
			at := time.Duration(0)
			if err == nil {
				at, err = seconds(string(out))
			}
			mu.Lock()
			defer mu.Unlock()
			last = max(last, at)
			if err != nil {
				problems = append(problems, fmt.Sprintf("%s: %v: %s", node, err, out))
			}
		})
	}
	return func() time.Duration {
		f.t.Helper()
		watches.Wait()
		if len(problems) > 0 {
			f.t.Errorf("a fault is still active, or that cannot be seen:\n%s", strings.Join(problems, "\n"))
		}
		return last
	}
}

// uptime returns for how long the machine has run.
func uptime(t *testing.T) time.Duration {
	t.Helper()
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(b), " ")
	at, err := seconds(text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func seconds(text string) (time.Duration, error) {
	s, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return time.Duration(s * float64(time.Second)), err
}

// smallQuota is a cluster whose etcd is soon full.
const smallQuota = `apiVersion: holdfast.dev/v1alpha1
kind: Cluster
metadata: {name: foreign}
spec:
  nodes: 3
  extraArgs:
    etcd:
      quota-backend-bytes: "67108864"
`

// likeOthers gives the nodes what those of other clusters have: their certificates, with the CA's
// key, in one place, so that agents can replace the API server's; and a strict reverse path filter,
// which agents change while packets pass through user space.
func (f *foreign) likeOthers() {
	f.t.Helper()
	f.write("local.yaml", localProfile+"pki: /run/pki\n")
	for _, node := range f.nodes() {
		f.do(exitPass, "shell", node, "--", "sh", f.write("others.sh", othersScript), f.dirs[node])
	}
}

const (
	othersScript = `set -e
ln -s "$1/pki" /run/pki
echo 1 >/proc/sys/net/ipv4/conf/all/rp_filter
`
	// ownVolumeScript moves etcd's data, in the directory $1, to a file system of their own that
	// has 64 MiB more than they need.
	ownVolumeScript = `set -e
cd "$1"
mv etcd etcd-aside
mkdir -m 700 etcd
mount -t tmpfs -o "mode=0700,size=$(($(du -sm --apparent-size etcd-aside | cut -f1) + 64))m" tmpfs etcd
cp -a etcd-aside/. etcd
rm -r etcd-aside
`
	// sharedVolumeScript undoes that.
	sharedVolumeScript = `set -e
cd "$1"
cp -a etcd etcd-aside
umount etcd
rmdir etcd
mv etcd-aside etcd
`
)

// ownVolume gives the data of etcd on node-2 a file system of their own, as disk-full needs it.
func (f *foreign) ownVolume() (undo func()) {
	f.t.Helper()
	move := func(script string) {
		f.do(exitPass, "inject", "kill", "--on", "etcd/2", "--for", "5m")
		f.do(exitPass, "shell", "node-2", "--", "sh", f.write("move.sh", script), f.dirs["node-2"])
		f.do(exitPass, "heal")
	}
	move(ownVolumeScript)
	return func() { move(sharedVolumeScript) }
}

// The script finds what it looks for.
func TestProcessScript(t *testing.T) {
	script := func() string {
		out, err := exec.Command("sh", "-c", processScript).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for name, line := range map[string]string{"holdfast-node-test": "of holdfast: sleep\n", "kube-apiserver": "runs: sleep\n"} {
		before := strings.Count(script(), line)
		sleeps := exec.Command("sleep", "60")
		sleeps.Args[0] = name
		if err := sleeps.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = sleeps.Process.Kill(), sleeps.Wait() })
		if err := sleeps.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(10 * time.Second); ; {
			out := script()
			if strings.Count(out, line) == before+1 && strings.Contains(out, "stopped: sleep\n") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s is missing:\n%s", name, out)
			}
		}
	}
}

// Keys and leases that only change on their own are left out, and those of a fault are not.
func TestStateOfTheCluster(t *testing.T) {
	for key, want := range map[string]bool{
		"": false, "compact_rev_key": false, "/registry/pods/default/a": false, "/registry/leases/kube-node-lease/worker-1": false,
		"/registry/events/default/holdfast.1": false, "/registry/namespaces/holdfast-1": true, "/registry/clusterroles/holdfast-overload-1": true,
		"/registry/validatingwebhookconfigurations/a": true, "/registry/configmaps/default/holdfast-webhook-probe": true, "holdfast/fill/0": true, "/holdfast/a": true,
		`{"level":"warn","msg":"no member answers"}`: true,
	} {
		if got := tellingKey(key); got != want {
			t.Errorf("%q: %t, want %t", key, got, want)
		}
	}
	nodes := []string{"node-1", "node-2"}
	for line, want := range map[string]string{
		"kube-scheduler=node-1_abc":          "kube-scheduler of a node",
		"kube-scheduler=node-2_def":          "kube-scheduler of a node",
		"kube-scheduler=holdfast-stranger":   "kube-scheduler of holdfast-stranger",
		"kube-scheduler=":                    "kube-scheduler of ",
		"apiserver-xyz=apiserver-xyz_abc":    "apiserver-xyz of apiserver-xyz",
		"kube-controller-manager=node-9_abc": "kube-controller-manager of node-9",
	} {
		if got := leaseWords(line, nodes); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestDiffering(t *testing.T) {
	for _, tc := range []struct{ before, now, want string }{
		{"a\nb\n", "b\na\n", ""},
		{"a\nb\n", "a\nb", ""},
		{"a\nb\n", "a\nc\n", "- b\n+ c\n"},
		{"a\n", "a\na\n", "+ a\n"},
		{"", "a\n", "+ a\n"},
	} {
		if got := differing(tc.before, tc.now); got != tc.want {
			t.Errorf("%q and %q: %q, want %q", tc.before, tc.now, got, tc.want)
		}
	}
}
