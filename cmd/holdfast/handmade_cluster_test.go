package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/reports"
)

// byHand makes a cluster as docs/handmade/README.md says, with the script's variables, runs shell
// commands beside it, and returns the cluster's directory and what they print. The directory with
// holdfast is their $1.
func byHand(t *testing.T, commands string, variables ...string) (cluster, said string) {
	t.Helper()
	c := newCommandLine(t)
	if os.Getuid() != 0 {
		t.Skip("takes root")
	}
	path := os.Getenv("PATH") + ":/usr/sbin:/sbin"
	for product, version := range map[release.Product]string{release.Kubernetes: release.DefaultKubernetes, release.Etcd: "v3.6.16"} {
		e, err := release.Lookup(product, version, release.Options{})
		if err != nil {
			t.Skip(err)
		}
		path += ":" + e.Dir
	}
	t.Setenv("PATH", path)
	for _, program := range []string{"ip", "openssl", "ssh-keygen", "sshd", "haproxy", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(exe, filepath.Join(dir, "holdfast")); err != nil {
		t.Fatal(err)
	}
	cluster = filepath.Join(c.run, "cluster")
	cmd := exec.Command("sh", "../../docs/handmade/cluster.sh", cluster, "sh", "-c", "set -e\nPATH=$1:$PATH\n"+commands, "sh", dir)
	cmd.Env = append(os.Environ(), variables...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return cluster, string(out)
}

// noneFails checks the results in a directory, and returns the verdict of each requirement.
func noneFails(t *testing.T, dir string) map[string]judge.Verdict {
	t.Helper()
	results, err := reports.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]judge.Verdict{}
	for _, r := range results.Requirements {
		all[r.ID] = r.Verdict
		switch r.Verdict {
		case judge.Fail:
			t.Errorf("%s: %s", r.ID, r.Sentence)
		case judge.Inconclusive, judge.NotApplicable:
			t.Logf("%s: %s: %s", r.ID, r.Verdict, r.Sentence)
		}
	}
	return all
}

// TestClusterSupervised breaks a cluster made by hand whose components are children of a process
// named k0s, which starts each again after 5 s, and which holdfast detects as k0s. The one that is
// to stay down is killed at each start, and the supervisor is left alone.
func TestClusterSupervised(t *testing.T) {
	cluster, said := byHand(t, `holdfast profile detect node-1 --inventory nodes.yaml
holdfast consent --inventory nodes.yaml --level process,network | kubectl apply -f -
holdfast inventory check nodes.yaml
holdfast run --inventory nodes.yaml --scenario apiserver-killed,etcd-leader-killed --out results || true
holdfast inventory check nodes.yaml`, "SUPERVISOR=k0s")
	for _, want := range []string{"profile k0s fits", "node node-3 (ssh 10.88.0.13): distribution k0s: etcd"} {
		if !strings.Contains(said, want) {
			t.Errorf("the output does not have %q", want)
		}
	}
	verdicts := noneFails(t, filepath.Join(cluster, "results"))
	for _, id := range []string{"HA-EP-003", "HA-CL-003", "HA-QR-005"} {
		if verdicts[id] != judge.Pass {
			t.Errorf("%s is %q", id, verdicts[id])
		}
	}
	if t.Failed() {
		t.Log(said)
	}
}

// TestClusterHandmade follows docs/handmade/README.md: holdfast recognizes and judges a cluster
// made by a shell script that knows nothing of holdfast, and kills a component of it.
func TestClusterHandmade(t *testing.T) {
	cluster, said := byHand(t, `holdfast profile detect node-1 --inventory nodes.yaml
holdfast consent --inventory nodes.yaml --level process,network | kubectl apply -f -
holdfast inventory check nodes.yaml
holdfast run --inventory nodes.yaml --profile smoke --out results || true`)
	if !strings.Contains(said, "processes") {
		t.Errorf("the profile is not detected:\n%s", said)
	}
	passed := 0
	for _, verdict := range noneFails(t, filepath.Join(cluster, "results")) {
		if verdict == judge.Pass {
			passed++
		}
	}
	if passed < 20 {
		t.Errorf("%d requirements pass, want most of the 29\n%s", passed, said)
	}
}
