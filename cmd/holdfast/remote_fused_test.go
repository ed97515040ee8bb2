package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// listArguments prints the processes of components with their arguments, separated by tabs.
const listArguments = `for p in /proc/[0-9]*; do
	args=$(tr '\0' '\t' <$p/cmdline) || continue
	case "$args" in
	*holdfast-etcd*|*kube-apiserver*|*kube-controller-manager*|*kube-scheduler*) echo "$args";;
	esac
done 2>/dev/null
true
`

// fusedScript runs etcd and the control plane as one process, with files where k3s has them, and
// restarts it 5 s after it exits, as k3s's systemd unit does. Its arguments are the program, the
// arguments of the components, the configuration of etcd, and the API server's certificates for
// etcd.
const fusedScript = `set -e
dir=/var/lib/rancher/k3s/server
mkdir -p $dir/db/etcd $dir/tls/etcd
cp "$2" /run/arguments
cp "$3" $dir/db/etcd/config
cp "$4" $dir/tls/etcd/server-ca.crt
cp "$5" $dir/tls/etcd/client.crt
cp "$6" $dir/tls/etcd/client.key
ln -s "$1" "/run/k3s server"
setsid sh -c 'while :; do "/run/k3s server" /run/arguments; sleep 5; done' </dev/null >/run/k3s.log 2>&1 &
`

// fuse runs each node's etcd, API server, controller manager and scheduler as one process, as in
// k3s; the local provider's own ones are held down.
func (f *foreign) fuse() {
	f.t.Helper()
	e, err := release.Lookup(release.KubernetesFused, release.DefaultKubernetes, release.Options{})
	if err != nil {
		f.t.Skipf("takes the fused program (holdfast fetch kubernetes-fused): %v", err)
	}
	nodes := []string{"node-1", "node-2", "node-3"}
	scripts := map[string][]string{}
	for _, n := range nodes {
		listed, _ := f.do(exitPass, "shell", n, "--", "sh", f.write("arguments.sh", listArguments))
		all := map[string]string{}
		etcd := map[string]string{}
		api := map[string]string{}
		for line := range strings.Lines(listed) {
			name, args, _ := strings.Cut(strings.Trim(line, "\t\n"), "\t")
			name = name[strings.LastIndex(name, "/")+1:]
			for _, arg := range strings.Split(args, "\t") {
				flag, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
				switch name {
				case "holdfast-etcd":
					etcd[flag] = value
				case "kube-apiserver":
					api[flag] = value
				}
			}
			all[name] = args
		}
		if len(all) != 4 {
			f.t.Fatalf("%s runs %v:\n%s", n, slices.Sorted(maps.Keys(all)), listed)
		}
		delete(all, "holdfast-etcd")
		all["etcd"] = "--config-file=/var/lib/rancher/k3s/server/db/etcd/config"
		text := ""
		for name, args := range all {
			text += name + "\t" + args + "\n"
		}
		scripts[n] = []string{"shell", n, "--", "sh", f.write("fuse.sh", fusedScript), e.Dir + "/kubernetes-fused", f.write("arguments-"+n, text),
			f.write("etcd-"+n, etcdConfig(f.t, etcd)), api["etcd-cafile"], api["etcd-certfile"], api["etcd-keyfile"]}
	}
	for _, component := range []string{"scheduler", "kcm", "apiserver", "etcd"} {
		for _, n := range nodes {
			f.do(exitPass, "inject", "stop", "--on", component+"/"+n, "--for", "2h")
		}
	}
	for _, n := range nodes {
		f.do(exitPass, scripts[n]...)
	}
	f.distribution = "auto"
	f.inventory = f.write("nodes.yaml", f.text+"  distribution: auto\n")
	said := ""
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		said, _ = f.try(f.inside("inventory", "check", f.inventory)...)
		if strings.Count(said, "FAIL") == 1 && strings.Contains(said, "FAIL  consent") {
			return
		}
	}
	for _, n := range nodes {
		log, _ := f.try("shell", n, "--", "tail", "-n", "5", "/run/k3s.log")
		said += n + ": " + log
	}
	f.t.Fatalf("the fused cluster is not ready:\n%s", said)
}

// etcdConfig returns the configuration file equivalent to flags of etcd.
func etcdConfig(t testing.TB, flags map[string]string) string {
	t.Helper()
	value := func(text string) any {
		if b, err := strconv.ParseBool(text); err == nil {
			return b
		}
		return text
	}
	config, client, peer := map[string]any{}, map[string]any{}, map[string]any{}
	for flag, text := range flags {
		own, of := strings.CutPrefix(flag, "peer-")
		switch {
		case of:
			peer[own] = value(text)
		case slices.Contains([]string{"client-cert-auth", "trusted-ca-file", "cert-file", "key-file"}, flag):
			client[flag] = value(text)
		default:
			config[flag] = value(text)
		}
	}
	config["client-transport-security"], config["peer-transport-security"] = client, peer
	b, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestClusterFused runs against a cluster whose nodes run etcd, API server, controller manager
// and scheduler as one process, which holdfast detects as k3s. Requirements that do not need one
// component alone pass, and report what else was hit; the others are not applicable. No other test
// runs beside it, since it wants those verdicts of each scenario.
func TestClusterFused(t *testing.T) {
	f := newForeign(t)
	f.fuse()
	text, _ := f.try(f.inside("inventory", "check", f.inventory)...)
	f.contains(text, "distribution k3s: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, node-agent (one process)")
	text, _ = f.do(exitPass, f.inside("profile", "detect", "node-1", "--inventory", f.inventory, "--output=json")...)
	if err := followsSchema("profile detect", text); err != nil {
		t.Error(err)
	}
	f.contains(text, `"profile": "k3s"`, `"etcdData": "`, `"parent": "sh"`)
	f.consent("process,network")
	out := f.dir + "/fused"
	text, code := f.try(f.inside("run", "--inventory", f.inventory, "--out", out, "--scenario", "etcd-leader-killed,etcd-leader-frozen,apiserver-killed")...)
	// On a busy machine the cluster may take too long to become steady, and the run then stops.
	for tries := 0; tries < 3 && strings.Contains(text, "continue with --resume"); tries++ {
		t.Log(text)
		text, code = f.try(f.inside("run", "--resume", out)...)
	}
	if code != exitPass && code != exitInconclusive {
		t.Fatalf("exit code %d:\n%s", code, text)
	}
	t.Log(text)
	r, err := reports.Load(out)
	if err != nil {
		t.Fatal(err)
	}
	// A scenario on an overloaded machine may end before any fault.
	overloaded := run.Starved(r.Results)
	coarser := 0
	for _, one := range r.All() {
		want := judge.Verdict("")
		switch one.ID {
		case "HA-QR-005", "HA-EP-003", "HA-EP-006":
			want = judge.Pass
		case "HA-QR-006", "HA-QR-019", "HA-LE-010": // need one component alone
			want = judge.NotApplicable
		default:
			continue
		}
		excused := slices.ContainsFunc(r.Results, func(o judge.Result) bool { return o.Requirement == one.ID && slices.Contains(overloaded, o.Scenario) })
		if one.Verdict != want && (one.Verdict != judge.Inconclusive || want == judge.NotApplicable && !excused) {
			t.Errorf("%s is %q, want %q: %s", one.ID, one.Verdict, want, one.Sentence)
		}
		if one.Verdict == judge.Pass && strings.Contains(one.Sentence, "Coarser fault: the kill of ") && strings.Contains(one.Sentence, "hit one process with") {
			coarser++
		}
	}
	if coarser == 0 && len(overloaded) == 0 {
		t.Error("no requirement passed on a coarser fault")
	}
	seen, err := record.Read(record.Dir(out, "etcd-leader-killed"))
	if err != nil {
		t.Fatal(err)
	}
	if len(seen.Faults) == 0 && slices.Contains(overloaded, "etcd-leader-killed") {
		t.Log("etcd-leader-killed ended before any fault, since the machine was overloaded")
	} else if len(seen.Faults) == 0 || !slices.Equal(seen.Faults[0].V.Group, []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "node-agent"}) {
		t.Errorf("the record has %+v", seen.Faults)
	}
	if left := f.left(); left != "" {
		t.Errorf("there is left on the nodes:\n%s", left)
	}
}
