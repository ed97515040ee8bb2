package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// A plan is read back as it was written, with what came of its parts.
func TestPlanOnDisk(t *testing.T) {
	dir := t.TempDir()
	p := planned(t)
	p.Parts[0].Took, p.Parts[0].Problem, p.Parts[0].Judging = time.Minute, "the worker ended", map[string]time.Duration{"a": time.Second}
	if err := savePlan(dir, p); err != nil {
		t.Fatal(err)
	}
	read, err := loadPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	if one := read.part(read.Scenarios[1]); one.Name != "cluster-1" || one.Took != time.Minute || one.Judging["a"] != time.Second {
		t.Errorf("%+v", one)
	}
	if one := read.part(read.Scenarios[2]); one.Name != "cluster-2" || len(one.Scenarios) != 2 {
		t.Errorf("%+v", one)
	}
	// What was not run says why, for its own cluster.
	d, err := deriveFrom(read, dir)
	if err != nil {
		t.Fatal(err)
	}
	if run := d.report(); len(run.Clusters) != 2 || run.Clusters[0].Problem != "the worker ended" || len(run.Times) != 0 {
		t.Errorf("%+v", run)
	}
}

// Plans of a holdfast that ran all on one cluster have no parts.
func TestPlanWithoutParts(t *testing.T) {
	fuse := &scenarios.Scenario{Spec: scenarios.Spec{Cluster: scenarios.Topology{Disk: "fuse"}}}
	p := &plan{Cluster: clusters.Default(), Scenarios: []*scenarios.Scenario{{}, fuse}}
	if one := p.part(p.Scenarios[0]); one.Name != "" || len(one.Cluster.Spec.Nodes) != 3 {
		t.Errorf("%+v", one)
	}
	if one := p.part(fuse); one.Cluster.Spec.Disk != clusters.DiskFUSE {
		t.Errorf("%+v", one.Cluster)
	}
}

func TestRepeats(t *testing.T) {
	for _, test := range []struct {
		parallel, starved int
		attach, want      bool
	}{{2, 0, false, false}, {2, 1, false, true}, {2, 4, false, true}, {1, 2, false, true}, {1, 3, false, false}, {1, 1, true, false}} {
		p := planned(t)
		p.Parallel, p.Attach = test.parallel, test.attach
		if got := p.repeats(test.starved); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestVerdictsInWords(t *testing.T) {
	var results []judge.Result
	for id, v := range map[string]judge.Verdict{"HA-1": judge.Pass, "HA-2": judge.Fail, "HA-3": judge.Pass, "RUN/linearizable": judge.Inconclusive} {
		results = append(results, judge.Result{Requirement: id, Verdict: v})
	}
	if got := verdicts(results); got != "1 fail, 2 pass" {
		t.Error(got)
	}
}

func TestHear(t *testing.T) {
	p := planned(t)
	var out strings.Builder
	b, err := newBoard(p, newProgress(&out))
	if err != nil {
		t.Fatal(err)
	}
	one := &p.Parts[0]
	begun, err := one.hear(strings.NewReader(`{"progress":"starting"}
{"made":6000000000}
{"begins":"a"}
{"settled":{"scenario":"a","verdicts":"1 pass","judging":200000000}}
{"made":5000000000}
{"begins":"b"}
`), b)
	if err != nil || begun != 2 || one.Made != 11*time.Second || one.Judging["a"] != 200*time.Millisecond {
		t.Errorf("%d begun, %v, %+v", begun, err, one)
	}
	if !strings.Contains(out.String(), "cluster-1  [1/4] a: 1 pass; 3 left") {
		t.Error(out.String())
	}
	if begun, err := one.hear(strings.NewReader(`{"broken":"no room"}`), b); begun != 0 || err == nil || err.Error() != "no room" {
		t.Errorf("%d begun, %v", begun, err)
	}
	if begun, err := one.hear(strings.NewReader("{\"begins\":\"b\"}\npanic: oh\n"), b); err == nil || begun != 1 {
		t.Errorf("%d begun, %v", begun, err)
	}
}

func TestRemoveData(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"data-cluster-1/node-1", "data-cluster-1.2", "data-cluster-10", "logs/cluster-1"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := planned(t)
	if err := p.Parts[0].removeData(dir); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2 || filepath.Base(left[0]) != "data-cluster-10" || filepath.Base(left[1]) != "logs" {
		t.Errorf("left: %v, %v", left, err)
	}
}
