package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/suites/certify"
)

// TestClusterCertify certifies a row, kills certify halfway and resumes it, kills that at random
// moments if killTrials asks for more than one, and verifies the bundle as a reviewer does.
func TestClusterCertify(t *testing.T) {
	t.Parallel()
	c := newCommandLine(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"vendor.key", "reviewer.key"} {
		c.do(exitPass, "keygen", "--out", in(name))
	}
	out := in("out")
	first := record.Dir(out, "webhook-hangs-victim-1")
	cmd := c.command("certify", "--rows", "HA-LE-015", "--key", in("vendor.key"), "--parallel", "1", "--out", out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	whole := func() bool { seen, err := record.Read(first); return err == nil && seen.Complete }
	for deadline := time.Now().Add(5 * time.Minute); !whole() && time.Now().Before(deadline); time.Sleep(time.Second) {
	}
	if !whole() {
		t.Error("the first experiment left no whole record")
	}
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	before, err := record.Read(first)
	if err != nil {
		t.Fatal(err)
	}

	for range killsOf(t, 1) - 1 {
		cmd := c.command("certify", "--resume", out, "--key", in("vendor.key"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second + rand.N(time.Minute))
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		all, _ := filepath.Glob(record.Dir(out, "*"))
		t.Logf("killed; records: %q", all)
	}
	// Inconclusive is fine on a busy machine; a failure is not.
	if text, code := c.try("certify", "--resume", out, "--key", in("vendor.key")); code != exitPass && code != exitInconclusive {
		t.Fatalf("exit code %d:\n%s", code, text)
	}
	file := filepath.Join(out, certify.BundleFile)
	stdout, _ := c.do(exitPass, "verify", file, "--key", in("vendor.key.pub"), "--sign", in("reviewer.key"), "-o", "json")
	var v certify.Verification
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		t.Fatal(err)
	}
	if v.Experiments != 3 || !v.Trusted || len(v.Problems) > 0 {
		t.Errorf("%d experiments, trusted %v, %q", v.Experiments, v.Trusted, v.Problems)
	}
	for _, row := range v.Outcome.Rows {
		if row.Verdict == judge.Fail || row.ID == "HA-LE-015" && row.Verdict == judge.Pass && len(row.Victims) != 3 {
			t.Errorf("%+v", row)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "overloaded", "webhook-hangs-victim-1")); err != nil {
		if after, err := record.Read(first); err != nil || !after.Meta.Started.Equal(before.Meta.Started) {
			t.Errorf("an experiment with a whole record was run again: %v", err)
		}
	}
	if info, err := os.Stat(file + ".svr.dsse.json"); err != nil || info.Size() == 0 {
		t.Errorf("the reviewer's statement: %v", err)
	}

	// A different key, then a changed byte.
	c.do(exitFail, "verify", file, "--key", in("reviewer.key.pub"))
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(in("changed.tar"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	c.do(exitFail, "verify", in("changed.tar"))
}
