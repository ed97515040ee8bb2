package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/certify"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// certifiedRow is the row that TestClusterCertify certifies, by three experiments of certifiedBy.
const certifiedRow, certifiedBy = "HA-LE-015", "webhook-hangs"

// certifying are the certifications of one row with one seed.
type certifying struct {
	commandLine
	dir  string
	seed uint64
}

func (c certifying) in(name string) string { return filepath.Join(c.dir, name) }

// begin is the command that starts a certification with results in a directory.
func (c certifying) begin(out string) []string {
	return []string{"certify", "--rows", certifiedRow, "--seed", fmt.Sprint(c.seed), "--key", c.in("vendor.key"), "--parallel", "1", "--out", out}
}

// verified verifies the bundle in a results directory as a reviewer does.
func (c certifying) verified(out string, args ...string) *certify.Verification {
	stdout, _ := c.do(exitPass, append([]string{"verify", filepath.Join(out, certify.BundleFile), "--key", c.in("vendor.key.pub"), "-o", "json"}, args...)...)
	var v certify.Verification
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		c.t.Fatal(err)
	}
	if v.Experiments != 3 || !v.Trusted || len(v.Problems) > 0 {
		c.t.Errorf("%d experiments, trusted %v, %q", v.Experiments, v.Trusted, v.Problems)
	}
	for _, row := range v.Outcome.Rows {
		if row.Verdict == judge.Fail || row.ID == certifiedRow && row.Verdict == judge.Pass && len(row.Victims) != 3 {
			c.t.Errorf("%+v", row)
		}
	}
	return &v
}

// killed starts or resumes a certification and kills it at a moment.
func (c certifying) killed(args []string, out string, names []string, at killMoment) {
	cmd := c.command(args...)
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	err := at.await(out, names, 5*time.Minute)
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	if err != nil {
		c.t.Error(err)
	}
	all, _ := filepath.Glob(record.Dir(out, "*"))
	c.t.Logf("killed at %+v; records: %q", at, all)
}

// expectedTime is how long one experiment takes.
func (c certifying) expectedTime() time.Duration {
	i := slices.IndexFunc(scenarios.All(), func(s *scenarios.Scenario) bool { return s.Metadata.Name == certifiedBy })
	spec := clusters.Default()
	spec.SetNodes(3)
	of, err := run.Cluster(spec, scenarios.All()[i].Spec.Cluster)
	if err != nil {
		c.t.Fatal(err)
	}
	settings, err := clusters.Settings(of)
	if err != nil {
		c.t.Fatal(err)
	}
	return scenarios.All()[i].Expected(settings)
}

// TestClusterCertify certifies a row, kills certify in the middle (at more moments, over all
// experiments, if killTrials asks for more than one) and resumes it, and verifies the bundle as a
// reviewer does. Its verdicts are those of a certification with the same seed that was not killed,
// which runs beside it: no other test does.
func TestClusterCertify(t *testing.T) {
	c := certifying{newCommandLine(t), t.TempDir(), randomSeed()}
	t.Logf("seed %d", c.seed)
	for _, name := range []string{"vendor.key", "reviewer.key"} {
		c.do(exitPass, "keygen", "--out", c.in(name))
	}
	// Beside the other one, on a cluster of its own.
	twin := make(chan string, 1)
	beside := c.command(c.begin(c.in("twin"))...)
	go func() {
		text, err := beside.CombinedOutput()
		twin <- fmt.Sprintf("%v\n%s", err, text)
	}()

	out := c.in("out")
	var names []string
	for victim := range 3 {
		names = append(names, fmt.Sprintf("%s-victim-%d", certifiedBy, victim+1))
	}
	args, whole := c.begin(out), map[string]time.Time{}
	for _, at := range killMoments(c.seed, killsOf(t, 1), len(names), c.expectedTime()) {
		c.killed(args, out, names, at)
		args = []string{"certify", "--resume", out, "--key", c.in("vendor.key")}
		for _, name := range names {
			if seen, err := record.Read(record.Dir(out, name)); err == nil && seen.Complete && seen.End.Error == "" {
				if before, ok := whole[name]; ok && !seen.Meta.Started.Equal(before) {
					t.Errorf("%s had a whole record and was run again", name)
				}
				whole[name] = seen.Meta.Started
			}
		}
	}
	// Inconclusive is fine on a busy machine; a failure is not.
	if text, code := c.try(args...); code != exitPass && code != exitInconclusive {
		t.Fatalf("exit code %d:\n%s", code, text)
	}
	v := c.verified(out, "--sign", c.in("reviewer.key"))
	for name, before := range whole {
		if _, err := os.Stat(filepath.Join(out, run.OverloadedDir, name)); err == nil {
			continue
		}
		if after, err := record.Read(record.Dir(out, name)); err != nil || !after.Meta.Started.Equal(before) {
			t.Errorf("%s had a whole record and was run again: %v", name, err)
		}
	}
	file := filepath.Join(out, certify.BundleFile)
	if info, err := os.Stat(file + certify.SVRSuffix); err != nil || info.Size() == 0 {
		t.Errorf("the reviewer's statement: %v", err)
	}
	c.compare(v, <-twin)

	// A different key, then a changed byte.
	c.do(exitFail, "verify", file, "--key", c.in("reviewer.key.pub"))
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(c.in("changed.tar"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	c.do(exitFail, "verify", c.in("changed.tar"))
}

// compare compares a certification that was killed and resumed with its twin, which was not and
// printed a text. Where the machine was overloaded, the twin is repeated once, with nothing beside
// it; what is still inconclusive then is only reported.
func (c certifying) compare(killed *certify.Verification, printed string) {
	if _, err := os.Stat(filepath.Join(c.in("twin"), certify.BundleFile)); err != nil {
		c.t.Errorf("the certification that was not killed made no bundle: %v\n%s", err, printed)
		return
	}
	certain, doubtful := differences(killed, c.verified(c.in("twin")))
	if len(certain) == 0 && len(doubtful) > 0 {
		c.t.Logf("the machine was overloaded, and the certification that was not killed is repeated: %q", doubtful)
		if text, code := c.try(c.begin(c.in("again"))...); code != exitPass && code != exitInconclusive {
			c.t.Fatalf("exit code %d:\n%s", code, text)
		}
		certain, doubtful = differences(killed, c.verified(c.in("again")))
	}
	for _, one := range certain {
		c.t.Errorf("killed and resumed, and uninterrupted, differ: %s", one)
	}
	for _, one := range doubtful {
		c.t.Logf("not compared, since the machine was overloaded: %s", one)
	}
}
