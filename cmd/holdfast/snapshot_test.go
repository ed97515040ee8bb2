package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/backup"

	"github.com/holdfast-ha/holdfast/reports"
)

// TestClusterSnapshot saves a snapshot of a cluster and restores it, also after etcd lost its
// quorum: objects from before the snapshot are back, later ones are gone, and the revision only
// increases.
func TestClusterSnapshot(t *testing.T) {
	t.Parallel()
	c := newCommandLine(t)
	c.up("--nodes", "3", "--name", "back", "--wait")
	file := filepath.Join(t.TempDir(), "before.db")
	kubectl := func(code int, args ...string) string {
		t.Helper()
		out, _ := c.do(code, append([]string{"kubectl", "--"}, args...)...)
		return out
	}
	revision := func(name string) int {
		t.Helper()
		n, err := strconv.Atoi(kubectl(exitPass, "get", "configmap", name, "-o", "jsonpath={.metadata.resourceVersion}"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	steps := func(out string) (result changed) {
		t.Helper()
		if err := reports.ReadJSON([]byte(out), &result); err != nil || !result.Done {
			t.Fatalf("%v: %s", err, out)
		}
		return result
	}
	kubectl(exitPass, "create", "configmap", "kept", "--from-literal=a=1")
	_, errOut := c.do(exitUsage, "snapshot", "save", file, "--node", "node-9")
	c.contains(errOut, "no etcd member on node-9")
	out, _ := c.do(exitPass, "snapshot", "save", file, "--node", "node-2", "-o", "json")
	c.contains(steps(out).Steps[0].Proof, "revision ", "keys", "checksum verified")
	kubectl(exitPass, "create", "configmap", "lost", "--from-literal=a=1")
	last := revision("lost")

	back := func(flags ...string) {
		t.Helper()
		out, _ := c.do(exitPass, append([]string{"snapshot", "restore", file, "-o", "json"}, flags...)...)
		if got := steps(out); len(got.Steps) != 1+3*3+3+3*3 {
			t.Errorf("%d steps: %s", len(got.Steps), out)
		}
		if out := kubectl(exitPass, "get", "configmap", "kept", "-o", "jsonpath={.data.a}"); strings.TrimSpace(out) != "1" {
			t.Errorf("what was in the snapshot is %q", out)
		}
		if _, _, code := c.execute("kubectl", "--", "get", "configmap", "lost"); code == exitPass {
			t.Error("what came after the snapshot is still there")
		}
	}
	back()
	kubectl(exitPass, "create", "configmap", "later", "--from-literal=a=1")
	later := revision("later")
	if later < last+backup.Bump/2 {
		t.Errorf("the revision was %d, and is %d", last, later)
	}

	// Two of three members are down, and would stay down for a long time.
	c.do(exitPass, "inject", "kill", "--on", "etcd/2", "--for", "5m")
	c.do(exitPass, "inject", "kill", "--on", "etcd/3", "--for", "5m")
	back()
	kubectl(exitPass, "create", "configmap", "again", "--from-literal=a=1")
	if now := revision("again"); now < later+backup.Bump/2 {
		t.Errorf("the same snapshot was restored again: the revision was %d, and is %d", later, now)
	}

	// No member is left that could be asked: whose snapshot it is cannot be checked.
	again := revision("again")
	for _, member := range []string{"etcd/1", "etcd/2", "etcd/3"} {
		c.do(exitPass, "inject", "kill", "--on", member, "--for", "5m")
	}
	_, errOut = c.do(exitUsage, "snapshot", "restore", file)
	c.contains(errOut, "failed to check whether the snapshot is from cluster back", "--foreign")
	back("--foreign")
	kubectl(exitPass, "create", "configmap", "last", "--from-literal=a=1")
	if now := revision("last"); now < again+backup.Bump/2 {
		t.Errorf("the snapshot was restored with all members down: the revision was %d, and is %d", again, now)
	}

	// Another cluster must not accept it by mistake.
	c.do(exitPass, "down", "--name", "back")
	c.up("--nodes", "1", "--name", "other", "--wait")
	_, errOut = c.do(exitUsage, "snapshot", "restore", file)
	c.contains(errOut, "the snapshot is from another cluster", "--foreign")
	if _, _, code := c.execute("kubectl", "--", "get", "configmap", "kept"); code == exitPass {
		t.Error("the snapshot was restored")
	}
	c.do(exitPass, "snapshot", "restore", file, "--foreign")
	kubectl(exitPass, "get", "configmap", "kept")

	if err := os.WriteFile(file, []byte("no snapshot"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.do(exitUsage, "snapshot", "restore", file)
	kubectl(exitPass, "get", "configmap", "kept")
	c.do(exitPass, "down")
}
