package run

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// planned returns a plan of two clusters with two scenarios each.
func planned() *Plan {
	p := &Plan{Cluster: clusters.Default(), Parallel: 2}
	for i, name := range []string{"a", "b", "c", "d"} {
		p.Scenarios = append(p.Scenarios, asking(name, 20, scenarios.Topology{}))
		if i%2 == 0 {
			p.Parts = append(p.Parts, Part{Name: "cluster-" + string(rune('1'+i/2)), Cluster: p.Cluster})
		}
		p.Parts[i/2].Scenarios = append(p.Parts[i/2].Scenarios, name)
	}
	return p
}

// A plan is read back as it was written, with the results of its parts.
func TestPlanOnDisk(t *testing.T) {
	dir := t.TempDir()
	p := planned()
	p.Parts[0].Took, p.Parts[0].Problem, p.Parts[0].Judging = time.Minute, "the worker ended", map[string]time.Duration{"a": time.Second}
	if err := p.Save(dir); err != nil {
		t.Fatal(err)
	}
	read, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if one := read.Part(read.Scenarios[1]); one.Name != "cluster-1" || one.Took != time.Minute || one.Judging["a"] != time.Second {
		t.Errorf("%+v", one)
	}
	if one := read.Part(read.Scenarios[2]); one.Name != "cluster-2" || len(one.Scenarios) != 2 {
		t.Errorf("%+v", one)
	}
	// Scenarios that did not run say why, for their own cluster.
	if run := read.Judge(dir).Report(); len(run.Clusters) != 2 || run.Clusters[0].Problem != "the worker ended" || len(run.Times) != 0 {
		t.Errorf("%+v", run)
	}
}

// What is prepared for the catalogue's scenarios are their clusters, and the versions that they
// upgrade to, but not the stages to which they take CAs.
func TestClusters(t *testing.T) {
	p := &Plan{Cluster: clusters.Default(), Scenarios: scenarios.All()}
	part := Part{Cluster: p.Cluster}
	for _, s := range p.Scenarios {
		part.Scenarios = append(part.Scenarios, s.Metadata.Name)
	}
	p.Parts = []Part{part}
	all := p.Clusters()
	if all[0] != p.Cluster {
		t.Errorf("the first one is %+v", all[0].Spec)
	}
	kubernetes, etcd := map[string]bool{}, map[string]bool{}
	for _, c := range all[1:] {
		kubernetes[c.Spec.KubernetesVersion], etcd[c.Spec.EtcdVersion] = true, true
	}
	for product, versions := range map[release.Product]map[string]bool{release.Kubernetes: kubernetes, release.Etcd: etcd} {
		for v := range versions {
			if _, err := release.ParseVersion(product, v); err != nil && v != "" { // the built-in etcd
				t.Errorf("%s %s: %v", product, v, err)
			}
		}
	}
	if !kubernetes["v1.36.3"] || !kubernetes["v1.37.1"] || !etcd["v3.7.3"] {
		t.Errorf("%v, %v", kubernetes, etcd)
	}
}

// TestEffects: the effects of a plan are those of the faults that it injects.
func TestEffects(t *testing.T) {
	p := planned()
	for i, name := range []string{"kill", "isolate", "kill", "theirs"} {
		s := p.Scenarios[i]
		s.Spec.Timeline = []engine.Step{{Inject: &engine.Inject{Fault: name, Target: "node/1", ID: "hit"}}, {Heal: "hit"}}
	}
	for _, tc := range []struct {
		name    string
		missing []int // scenarios that do not apply
		want    [][]record.Effect
	}{
		{"processes and network", nil, [][]record.Effect{{}, {record.EffectDown}, {record.EffectIsolated, record.EffectNetwork}}},
		{"a fault that may have any effect", []int{1}, [][]record.Effect{{}, {record.EffectDown}}},
		{"processes", []int{1, 3}, [][]record.Effect{{record.EffectDown}}},
		{"no fault", []int{0, 1, 2, 3}, nil},
	} {
		for i, s := range p.Scenarios {
			s.Missing = ""
			if slices.Contains(tc.missing, i) {
				s.Missing = "it does not apply"
			}
		}
		if got := p.Effects(); !slices.EqualFunc(got, tc.want, slices.Equal[[]record.Effect]) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
		if got := p.Harmless(); got != (tc.want == nil) {
			t.Errorf("%s: it is harmless: %t", tc.name, got)
		}
	}
	p.Scenarios[0].Missing, p.Scenarios[0].Spec.Timeline = "", []engine.Step{{Action: &engine.Action{Name: "remove-node", Node: "node/1"}}}
	if p.Harmless() {
		t.Error("a plan that removes a node is harmless")
	}
}

// TestObserveIsHarmless: nothing in the profile observe breaks anything.
func TestObserveIsHarmless(t *testing.T) {
	for profile, want := range map[string]bool{"observe": true, "smoke": false} {
		chosen, err := Choose(profile, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		p := &Plan{Cluster: clusters.Default(), Scenarios: chosen}
		if len(chosen) == 0 || p.Harmless() != want || (len(p.Effects()) == 0) != want {
			t.Errorf("%s: %d scenarios, effects %v, it is harmless: %t", profile, len(chosen), p.Effects(), p.Harmless())
		}
	}
}

// Plans of a holdfast that ran all on one cluster have no parts.
func TestPlanWithoutParts(t *testing.T) {
	fuse := &scenarios.Scenario{Spec: scenarios.Spec{Cluster: scenarios.Topology{Disk: "fuse"}}}
	p := &Plan{Cluster: clusters.Default(), Scenarios: []*scenarios.Scenario{{}, fuse}}
	if one := p.Part(p.Scenarios[0]); one.Name != "" || len(one.Cluster.Spec.Nodes) != 3 {
		t.Errorf("%+v", one)
	}
	if one := p.Part(fuse); one.Cluster.Spec.Disk != clusters.DiskFUSE {
		t.Errorf("%+v", one.Cluster)
	}
}

// An error about a wrong directory says what it is and what to do.
func TestLoadOfWhatIsNoPlan(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "bundle.tar")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "wrote with --out", file: "mkdir DIR && tar -xf " + file + " -C DIR", dir + "/none": "it does not exist"} {
		if _, err := Load(path); !errors.Is(err, ErrNoResults) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// The note on what was not judged says why, for a certification without a flag that it lacks.
func TestNotJudged(t *testing.T) {
	v := &Verdicts{Plan: planned()}
	for _, r := range scenarios.Requirements() {
		v.Results = append(v.Results, judge.Result{Requirement: r.ID})
	}
	if got := v.NotJudged(); got != "" {
		t.Errorf("all are judged: %q", got)
	}
	v.Results = v.Results[1:]
	if got := v.NotJudged(); !strings.Contains(got, " 1 was not judged: 1 belongs to scenarios that this run does not have (see --profile).") {
		t.Error(got)
	}
	v.Plan.Rows, v.Results = []string{"HA-EP-003"}, v.Results[1:]
	if got := v.NotJudged(); !strings.Contains(got, " 2 were not judged: 2 belong to scenarios that the certificate does not need.") {
		t.Error(got)
	}
}

func TestRepeats(t *testing.T) {
	for _, test := range []struct {
		parallel, starved int
		attach, want      bool
	}{{2, 0, false, false}, {2, 1, false, true}, {2, 4, false, true}, {1, 2, false, true}, {1, 3, false, false}, {1, 1, true, false}} {
		p := planned()
		p.Parallel, p.Attach = test.parallel, test.attach
		if got := p.repeats(test.starved); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestRemoveData(t *testing.T) {
	for _, out := range []string{"out", "an[odd one", "run[1]"} { // not patterns
		above := t.TempDir()
		dir := filepath.Join(above, out)
		for _, name := range []string{"data-cluster-1/node-1", "data-cluster-1.2", "data-cluster-10", "logs/cluster-1", "../run1/data-cluster-1"} {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		p := planned()
		if err := p.Parts[0].removeData(dir); err != nil {
			t.Fatal(err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 2 || left[0].Name() != "data-cluster-10" || left[1].Name() != "logs" {
			t.Errorf("%s: left: %v, %v", out, left, err)
		}
		if _, err := os.Stat(filepath.Join(above, "run1", "data-cluster-1")); err != nil {
			t.Errorf("%s: the data of another run: %v", out, err)
		}
	}
	if err := planned().Parts[0].removeData(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Error(err)
	}
}

// TestInTurnExternalEtcd: hosts of etcd and nodes with API servers do not take turns.
func TestInTurnExternalEtcd(t *testing.T) {
	spec := clusters.Default()
	chosen := scenarios.All()[:2]
	spec.Spec.Inventory = &clusters.Inventory{Spec: clusters.InventorySpec{Nodes: []clusters.InventoryNode{{Name: "cp-1"}, {Name: "cp-2"}, {Name: "cp-3"}}}}
	if all := InTurn(spec, chosen, 1, nil); len(all) <= len(chosen) {
		t.Errorf("with members on the nodes there are %d scenarios", len(all))
	}
	spec.Spec.Inventory.Spec.Nodes[2].Roles = []clusters.Role{clusters.RoleEtcd}
	if all := InTurn(spec, chosen, 1, nil); len(all) != len(chosen) {
		t.Errorf("with hosts of etcd there are %d scenarios", len(all))
	}
	if size := spec.Size(); size != 2 {
		t.Errorf("with two API servers and one host of etcd the size is %d", size)
	}
}

// FuzzLoad checks that any plan is either refused or can be judged: a bundle's plan comes from
// elsewhere.
func FuzzLoad(f *testing.F) {
	spec := clusters.Default()
	p := New(local.Provider{}, spec, InTurn(spec, scenarios.All()[:2], 1, nil), 7, "test")
	if err := p.Divide(local.Provider{}, 1); err != nil {
		f.Fatal(err)
	}
	dir := f.TempDir()
	if err := p.Save(dir); err != nil {
		f.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, PlanFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"cluster": {}, "parts": [{"name": "x"}], "scenarios": [{}]}`))
	f.Add([]byte(`{"cluster": {}, "parts": [], "scenarios": [null]}`))
	f.Add([]byte(`{"cluster": {}, "parts": [], "scenarios": [{"spec": {"timeline": [{}], "requirements": [{}]}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, PlanFile), data, 0o644); err != nil {
			t.Fatal(err)
		}
		p, err := Load(dir)
		if err != nil {
			return
		}
		p.Judge(dir).Report()
	})
}

// TestKindOfNotApplicable: what a scenario would settle does not apply by design, or cannot be tested
// here.
func TestKindOfNotApplicable(t *testing.T) {
	for _, byDesign := range []bool{true, false} {
		p := planned()
		s := p.Scenarios[0]
		s.Missing, s.ByDesign = "it needs another balancer", byDesign
		results, _ := p.JudgeScenario(t.TempDir(), s)
		for _, r := range results {
			if r.Verdict != judge.NotApplicable || r.Justified != byDesign {
				t.Errorf("by design %t: %+v", byDesign, r)
			}
		}
		s.Missing = ""
		notRun, _ := p.JudgeScenario(t.TempDir(), s)
		for _, r := range notRun {
			if r.Verdict != judge.Inconclusive || r.Justified {
				t.Errorf("a scenario that was not run: %+v", r)
			}
		}
		if len(results) == 0 {
			t.Error("there are no results")
		}
	}
}
