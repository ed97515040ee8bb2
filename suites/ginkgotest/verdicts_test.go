package ginkgotest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/clusters/local/localtest"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// ownScenario checks the endpoints of a healthy cluster.
const ownScenario = `
apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: NAME}
spec:
  cluster: CLUSTER
  timeline:
  - wait: 4s
  requirements:
  - {id: HA-EP-001, judge: endpoints-match}
`

// offAndIsolated isolates a member on a node without power: its fault cannot take effect.
const offAndIsolated = `
apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: off-and-isolated}
spec:
  timeline:
  - wait: 4s
  - inject: {fault: power-off, target: node/3, as: off}
  - inject: {fault: isolate-etcd, target: etcd/3, as: cut}
  - wait: 2s
  requirements:
  - {id: HA-QR-002, judge: isolated-member, fault: cut, bound: 2E + M}
`

// needsFive does not apply to a cluster of three nodes.
var needsFive = strings.NewReplacer("NAME", "needs-five", "CLUSTER", "{}", "spec:", "spec:\n  minNodes: 5").Replace(ownScenario)

// TestVerdicts runs on two processes: a planted violation of two requirements, with a second attempt, a
// fault that cannot take effect, and a scenario that does not apply. They share a results directory.
func TestVerdicts(t *testing.T) {
	localtest.NeedClusters(t, clusters.Default())
	// API servers have 2I + M, 22 s, to list themselves, before an empty list is a failure.
	planted := strings.NewReplacer("NAME", "planted", "CLUSTER", "{extraArgs: {kube-apiserver: {endpoint-reconciler-type: none}}}", "4s", "26s",
		"requirements:", "requirements:\n  - {id: ACME-001, judge: endpoints-match}").Replace(ownScenario)
	files := []string{write(t, "planted.yaml", planted), write(t, "off-and-isolated.yaml", offAndIsolated), write(t, "needs-five.yaml", needsFive)}
	cmd := command(t, 2, "-ginkgo.flake-attempts=2", "-ginkgo.junit-report=junit.xml", "-ginkgo.output-dir=.", "--out", "out", "--file", strings.Join(files, ","))
	out := filepath.Join(cmd.Dir, "out")
	cmd.Args[len(cmd.Args)-3] = out
	text, code := output(t, cmd)
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	results, err := reports.Load(out)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if v, err := run.Judge(out); err != nil || len(run.Starved(v.Results)) > 0 {
		t.Skipf("the machine was overloaded, %v", err)
	}
	if len(results.Run.Clusters) != 2 || results.Run.Clusters[0].Took <= 0 || results.Run.Clusters[1].Took <= 0 {
		t.Errorf("clusters: %+v", results.Run.Clusters)
	}
	if !slices.ContainsFunc(results.Run.Clusters, func(c reports.Cluster) bool { return strings.Contains(c.Problem, "in an earlier attempt of planted") }) {
		t.Errorf("the report does not name the attempt before the last: %+v", results.Run.Clusters)
	}
	cases := junit(t, filepath.Join(cmd.Dir, "junit.xml"))
	sentence := ""
	for _, r := range results.Requirements {
		want := map[string]judge.Verdict{"HA-EP-001": judge.Fail, "HA-QR-002": judge.Inconclusive}[r.ID]
		if want != "" && r.Verdict != want {
			t.Errorf("%s is %s, want %s: %s", r.ID, r.Verdict, want, r.Sentence)
		}
		if r.ID == "HA-EP-001" {
			sentence = r.Sentence
		}
	}
	// A failure has the judge's sentence; a skip says why.
	if failure := cases["planted"].Failure; sentence == "" || !strings.Contains(failure, "HA-EP-001: "+sentence) {
		t.Errorf("planted failed with %q, want %q", failure, sentence)
	}
	// Each failed requirement is a failure of its own.
	for _, want := range []string{"planted: HA-EP-001: " + sentence, "ACME-001: " + sentence} {
		if !strings.Contains(text, want) {
			t.Errorf("the end of the output lacks %q", want)
		}
	}
	if why := cases["off-and-isolated"].Skipped.Message; !strings.Contains(why, "inconclusive: ") || !strings.Contains(why, "proof") {
		t.Errorf("off-and-isolated was skipped with %q", why)
	}
	if why := cases["needs-five"].Skipped.Message; !strings.Contains(why, "not applicable: the scenario needs 5 control-plane nodes") {
		t.Errorf("needs-five was skipped with %q", why)
	}
	if left, _ := filepath.Glob(filepath.Join(out, ".*.lock")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	gone(t, t.Name())
	if t.Failed() {
		t.Log(text)
	}
}

// TestAsHoldfastRun checks that the suite gives the same verdicts as `holdfast run` with the same
// seed, none of which is a failure, and that a single inconclusive spec fails the suite.
func TestAsHoldfastRun(t *testing.T) {
	localtest.NeedClusters(t, clusters.Default())
	chosen, err := run.Choose("smoke", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	provider := local.Provider{}
	p := run.New(provider, clusters.Default(), chosen, 42, "test")
	if err := p.Divide(provider, 1); err != nil {
		t.Fatal(err)
	}
	v, err := p.CarryOut(t.Context(), provider, filepath.Join(t.TempDir(), "out"), run.Show{
		Line: t.Logf, Board: func(*run.Plan) (run.Board, error) { return silent{}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(t, 0, "--seed", "42", "--out", "out")
	text, code := output(t, cmd)
	suite, err := run.Judge(filepath.Join(cmd.Dir, "out"))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(run.Starved(v.Results))+len(run.Starved(suite.Results)) > 0 {
		t.Skip("the machine was overloaded")
	}
	if want := min(1, reports.ExitCode(suite.Results)); code != want {
		t.Errorf("exit code %d, want %d:\n%s", code, want, text)
	}
	if suite.Plan.Seed != 42 || len(suite.Plan.Scenarios) != len(chosen) {
		t.Errorf("seed %d, %d scenarios", suite.Plan.Seed, len(suite.Plan.Scenarios))
	}
	// By requirement, as in reports. A requirement that holds in every run may have had nothing
	// to judge: whether a component acted is a matter of milliseconds.
	of := func(v *run.Verdicts) map[string]judge.Verdict {
		all := map[string]judge.Verdict{}
		for _, r := range reports.New(v.Report(), v.Results, nil).Requirements {
			all[r.ID] = r.Verdict
			if r.Verdict == judge.Fail {
				t.Errorf("%s: %s", r.ID, r.Sentence)
			}
			if strings.HasPrefix(r.ID, "HA-INV-") && r.Verdict == judge.NotApplicable {
				all[r.ID] = judge.Pass
			}
		}
		return all
	}
	want := of(v)
	for key, verdict := range of(suite) {
		if want[key] != verdict {
			t.Errorf("%s: %s, and %s by holdfast run", key, verdict, want[key])
		}
		delete(want, key)
	}
	if len(want) > 0 {
		t.Errorf("only by holdfast run: %v", want)
	}
}

type silent struct{}

func (silent) Says(string, string)         {}
func (silent) Begins(string, string)       {}
func (silent) Settled(string, run.Settled) {}
func (silent) Ended(string)                {}
func (silent) Fewer(int)                   {}
func (silent) Close()                      {}
