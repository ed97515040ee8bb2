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

// TestClusterHandmade follows docs/handmade/README.md: holdfast recognizes and judges a cluster
// made by a shell script that knows nothing of holdfast, and kills a component of it.
func TestClusterHandmade(t *testing.T) {
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
	const commands = `set -e
PATH=$1:$PATH
holdfast profile detect node-1 --inventory nodes.yaml
holdfast consent --inventory nodes.yaml --level process,network | kubectl apply -f -
holdfast inventory check nodes.yaml
holdfast run --inventory nodes.yaml --profile smoke --out results || true`
	cluster := filepath.Join(c.run, "cluster")
	out, err := exec.Command("sh", "../../docs/handmade/cluster.sh", cluster, "sh", "-c", commands, "sh", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "processes") {
		t.Errorf("the profile is not detected:\n%s", out)
	}
	results, err := reports.Load(filepath.Join(cluster, "results"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	passed := 0
	for _, r := range results.Requirements {
		switch {
		case r.Verdict == judge.Pass:
			passed++
		case r.Verdict == judge.Fail:
			t.Errorf("%s: %s", r.ID, r.Sentence)
		case r.Verdict == judge.Inconclusive:
			t.Logf("%s: %s", r.ID, r.Sentence)
		}
	}
	if passed < 20 {
		t.Errorf("%d requirements pass, want most of the 29", passed)
	}
}
