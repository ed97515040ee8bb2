package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters/agent"
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
	program := filepath.Join(dir, "holdfast-agent")
	buildAgent(t, program)
	cmd.Env = append(append(os.Environ(), agent.ProgramEnv+"="+program), variables...)
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
	passed, verdicts := 0, noneFails(t, filepath.Join(cluster, "results"))
	for _, verdict := range verdicts {
		if verdict == judge.Pass {
			passed++
		}
	}
	for _, id := range []string{"HA-TOP-001", "HA-TOP-002", "HA-LE-001", "HA-SEC-001", "HA-QR-005"} {
		if verdict := verdicts[id]; verdict != judge.Pass && verdict != judge.Inconclusive {
			t.Errorf("%s is %q, want %q", id, verdict, judge.Pass)
		}
	}
	if passed < 20 {
		t.Errorf("%d requirements pass, want most of the 29\n%s", passed, said)
	}
}
