package certify

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports/bundle"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// forged unpacks a bundle, lets change modify its files and its statement, and signs it again
// with another key.
func forged(t *testing.T, file string, change func(dir string, s *Statement)) (again string, key *bundle.Key) {
	dir := t.TempDir()
	b, err := bundle.Open(file, dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := statementOf(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "attestations")); err != nil {
		t.Fatal(err)
	}
	change(dir, s)
	key, again = testKey(t), filepath.Join(t.TempDir(), "bundle.tar")
	if err := bundle.Write(again, dir, key, predicates(s)...); err != nil {
		t.Fatal(err)
	}
	return again, key
}

// restate changes the results in a bundle's directory.
func restate(t *testing.T, dir string, change func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(dir, resultsFile)
	text, err := decompress(path, 1<<30)
	if err == nil {
		text = change(text)
		err = compress(path, func(out io.Writer) error { _, err := out.Write(text); return err })
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Verify detects a bundle that a vendor altered and signed again, and gives the reason.
func TestVerifyForged(t *testing.T) {
	c := newCertification(t, "HA-QR-005", "HA-LE-002")
	first, second := c.plan.Scenarios[0], c.plan.Scenarios[1]
	file := c.bundle(t, testKey(t))
	// remake makes a record again, inside an unpacked bundle.
	remake := func(dir string, s *scenarios.Scenario, observation string, change func(*record.Meta)) {
		(&certification{dir: dir, plan: c.plan}).record(t, s, observation, change)
	}
	replan := func(dir string, change func(p *run.Plan)) {
		p, err := run.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		change(p)
		if err := p.Save(dir); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		change func(dir string, s *Statement)
		want   string
	}{
		"nothing": {func(string, *Statement) {}, ""},
		"a verdict edited": {func(_ string, s *Statement) {
			i := slices.IndexFunc(s.Verdicts, func(v Verdict) bool { return v.Requirement == "HA-QR-005" })
			s.Verdicts[i].Verdict = judge.Pass
		}, "HA-QR-005 in etcd-leader-killed-victim-1 is stated as pass, but its record gives inconclusive"},
		"a sentence edited":  {func(_ string, s *Statement) { s.Verdicts[0].Sentence = "All is well." }, `is stated as "All is well."`},
		"a verdict left out": {func(_ string, s *Statement) { s.Verdicts = s.Verdicts[1:] }, "the statement has no verdict on"},
		"a verdict invented": {func(_ string, s *Statement) {
			s.Verdicts = append(s.Verdicts, Verdict{Scenario: "x", Requirement: "HA-EP-003", Judge: "j", Verdict: judge.Pass})
		}, "the statement has a verdict on HA-EP-003 in x that no record gives"},
		"the outcome edited": {func(_ string, s *Statement) { s.Outcome.Certified = true }, "the stated outcome is"},
		"a record removed": {func(dir string, _ *Statement) { os.RemoveAll(record.Dir(dir, first.Metadata.Name)) },
			first.Metadata.Name + " has no record"},
		"an experiment copied": {func(dir string, _ *Statement) {
			os.RemoveAll(record.Dir(dir, second.Metadata.Name))
			os.CopyFS(record.Dir(dir, second.Metadata.Name), os.DirFS(record.Dir(dir, first.Metadata.Name)))
		}, "is from another scenario (" + first.Metadata.Name + ")"},
		"a record of another run": {func(dir string, _ *Statement) {
			remake(dir, second, "x", func(m *record.Meta) { m.Run = "another" })
		}, "is from another run (another)"},
		"a record of another cluster under the run's name": {func(dir string, _ *Statement) {
			remake(dir, second, "x", func(m *record.Meta) { m.Nodes[0].Address = "10.0.9.9" })
		}, "are from different clusters"},
		"a record of other nodes": {func(dir string, _ *Statement) {
			remake(dir, second, "x", func(m *record.Meta) { m.Nodes = m.Nodes[:2] })
		}, "is from a cluster with nodes node-1, node-2, but the plan's has node-1, node-2, node-3"},
		"a record of another version": {func(dir string, _ *Statement) {
			remake(dir, second, "x", func(m *record.Meta) { m.Versions["node-2"]["kube-apiserver"] = "v1.36.3" })
		}, "has API server v1.36.3 on node-2"},
		"another version stated": {func(_ string, s *Statement) { s.Versions.Kubernetes = "v1.99.0" }, "the version of Kubernetes is stated as v1.99.0"},
		"a record made later": {func(dir string, _ *Statement) {
			remake(dir, second, "x", func(*record.Meta) {})
		}, "and the run lasted from"},
		"other checks": {func(dir string, _ *Statement) {
			remake(dir, second, "x", func(m *record.Meta) {
				m.Checks = slices.Clone(m.Checks)
				m.Checks[0].Bound = "10L"
			})
		}, "asks for checks that differ from those of the catalogue"},
		"a record cut short": {func(dir string, _ *Statement) {
			path := filepath.Join(record.Dir(dir, second.Metadata.Name), record.FileName)
			if info, err := os.Stat(path); err != nil || os.Truncate(path, info.Size()-6) != nil {
				t.Fatal(err)
			}
		}, "is not complete"},
		"an experiment left out": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) { p.Scenarios = p.Scenarios[1:] })
		}, "the plan lacks " + first.Metadata.Name},
		"an experiment planned twice": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) { p.Scenarios = append(p.Scenarios, p.Scenarios[0]) })
		}, "the plan has " + first.Metadata.Name + " twice"},
		"a row added to the plan": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) { p.Rows = append(p.Rows, "HA-EP-003") })
		}, "the plan lacks apiserver-killed-victim-1"},
		"no rows": {func(dir string, _ *Statement) { replan(dir, func(p *run.Plan) { p.Rows = nil }) }, "certifies nothing"},
		"a bound loosened": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) { p.Scenarios[0].Spec.Requirements[0].Bound = "10L" })
		}, first.Metadata.Name + " in the plan is not as the catalogue has it"},
		"a step left out": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) { p.Scenarios[0].Spec.Timeline = p.Scenarios[0].Spec.Timeline[1:] })
		}, first.Metadata.Name + " in the plan is not as the catalogue has it"},
		"an experiment on another cluster, marked as left out": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) {
				p.Scenarios[0].Missing = "nothing"
				p.Scenarios[0].Spec.Cluster.ExtraArgs = map[string]map[string]string{"kube-scheduler": {"leader-elect-lease-duration": "10m"}}
			})
		}, first.Metadata.Name + " in the plan is not as the catalogue has it"},
		"an experiment on another cluster": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) { p.Scenarios[0].Spec.Cluster.Disk = "fuse" })
		}, first.Metadata.Name + " in the plan is not as the catalogue has it"},
		"a scenario excused": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) {
				base := *Scenarios(p.Rows, Breaking)[0]
				base.Missing, base.ByDesign = "we do not do that", true
				p.Scenarios = append([]*scenarios.Scenario{&base}, slices.DeleteFunc(p.Scenarios, func(s *scenarios.Scenario) bool { return s.Of == base.Metadata.Name })...)
			})
		}, "is left out for a cluster design"},
		"another version of the plan's cluster": {func(dir string, s *Statement) {
			replan(dir, func(p *run.Plan) { p.Cluster.Spec.KubernetesVersion = "v1.37.9" })
			s.Versions.Kubernetes = "v1.37.9"
		}, first.Metadata.Name + " did not run on the plan's cluster with the settings that the scenario asks for"},
		"a part with longer times": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) {
				for i := range p.Parts {
					p.Parts[i].Cluster.Spec.ExtraArgs = clusters.ExtraArgs{"kube-scheduler": {"leader-elect-lease-duration": "10m"}}
				}
			})
		}, second.Metadata.Name + " did not run on the plan's cluster with the settings that the scenario asks for"},
		"an inventory of clusters that holdfast made": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) {
				p.Cluster.Spec.Inventory = &clusters.Inventory{}
				for i := range p.Parts {
					p.Parts[i].Cluster.Spec.Inventory = &clusters.Inventory{}
				}
			})
			remake(dir, second, "x", func(m *record.Meta) { m.Settings["M"] = time.Minute })
		}, "has M = 1m0s, but the plan's cluster has 2s"},
		"a turn excused": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) { p.Scenarios[0].ByDesign = true })
		}, first.Metadata.Name + " in the plan is not as the catalogue has it"},
		"a reason of a turn replaced": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) { p.Scenarios[0].MissingFor = map[string]string{"HA-QR-005": "we do not do that"} })
		}, first.Metadata.Name + " in the plan is not as the catalogue has it"},
		"other results": {func(dir string, _ *Statement) {
			restate(t, dir, func(text []byte) []byte { return bytes.ReplaceAll(text, []byte(`"inconclusive"`), []byte(`"pass"`)) })
		}, "results.json.zst has other verdicts"},
		"another machine in the results": {func(dir string, _ *Statement) {
			restate(t, dir, func(text []byte) []byte { return bytes.Replace(text, []byte(`"cores": `), []byte(`"cores": 9`), 1) })
		}, "results.json.zst has other verdicts or facts"},
		"more results": {func(dir string, _ *Statement) {
			restate(t, dir, func(text []byte) []byte { return append(text, '\n') })
		}, "results.json.zst has other verdicts or facts"},
		"a longer bound": {func(dir string, _ *Statement) {
			remake(dir, second, "x", func(m *record.Meta) { m.Settings["M"] = time.Minute })
		}, "has M = 1m0s, but the plan's cluster has 2s"},
		"another etcd": {func(dir string, _ *Statement) {
			remake(dir, second, "x", func(m *record.Meta) { m.Versions["node-2"]["etcd"] = "v9.9.9" })
		}, "has etcd v9.9.9 on node-2"},
		"other elections": {func(dir string, _ *Statement) {
			remake(dir, second, "x", func(m *record.Meta) {
				m.Elections = map[string]map[string]time.Duration{"kube-scheduler": {"L": time.Hour}}
			})
		}, "have different settings"},
		"other elections in each record": {func(dir string, _ *Statement) {
			for _, s := range c.plan.Scenarios {
				remake(dir, s, s.Metadata.Name, func(m *record.Meta) { m.Elections["kube-scheduler"]["L"] = time.Hour })
			}
		}, "has other election times than the plan's cluster, which has map[kube-controller-manager:map[L:15s P:2s R:10s]"},
		"another distribution": {func(dir string, _ *Statement) {
			remake(dir, first, "x", found(record.Distribution{Name: "kubeadm", Digest: sum}))
			remake(dir, second, "y", found(record.Distribution{Name: "k3s", Digest: sum}))
		}, "have nodes of different distributions: node-2 was found by profile kubeadm (0123456789ab) and by profile k3s (0123456789ab)"},
		"another profile of the distribution": {func(dir string, _ *Statement) {
			remake(dir, first, "x", found(record.Distribution{Name: "kubeadm", Digest: sum}))
			remake(dir, second, "y", found(record.Distribution{Name: "kubeadm", Digest: "f" + sum}))
		}, "have nodes of different distributions: node-2 was found by profile kubeadm (0123456789ab) and by profile kubeadm (f0123456789a)"},
		"a record of another seed": {func(dir string, _ *Statement) {
			remake(dir, second, "x", func(m *record.Meta) { m.Seed = 8 })
		}, "has seed 8, and the run's seed makes it"},
		"another seed": {func(dir string, _ *Statement) {
			replan(dir, func(p *run.Plan) { p.Seed = 42 })
		}, "the plan has seed 42, but run "},
		"another etcd stated": {func(_ string, s *Statement) { s.Versions.Etcd = "v9.9.9" }, "the versions are stated as"},
		"more nodes stated":   {func(_ string, s *Statement) { s.Nodes = append(s.Nodes, s.Nodes[0]) }, "the nodes are stated as"},
		"another row stated":  {func(_ string, s *Statement) { s.Outcome.Rows[0].Measured = "1ns" }, "the stated outcome differs from what the records give: they give HA-"},
		"a file too many": {func(dir string, _ *Statement) {
			os.WriteFile(filepath.Join(dir, "README.txt"), []byte("x"), 0o644)
		}, "README.txt is in the bundle, and nothing in the plan explains it"},
		"a hidden record": {func(dir string, _ *Statement) {
			os.CopyFS(record.Dir(dir, "hidden"), os.DirFS(record.Dir(dir, first.Metadata.Name)))
		}, "record/hidden/record.jsonl.zst is in the bundle"},
	} {
		again, key := forged(t, file, test.change)
		v, err := Verify(again, key, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v.Holds() != (test.want == "") || !v.Holds() && !strings.Contains(strings.Join(v.Problems, "\n"), test.want) {
			t.Errorf("%s: %q, want %q", name, v.Problems, test.want)
		}
	}
	for name, change := range map[string]func(*Statement){
		"another catalogue":      func(s *Statement) { s.Tool.Catalogue = strings.Repeat("0", 64) },
		"records of an old form": func(s *Statement) { s.Tool.Record-- },
		"other judges":           func(s *Statement) { s.Tool.Judges = strings.Repeat("0", 64) },
	} {
		again, key := forged(t, file, func(_ string, s *Statement) { change(s) })
		if _, err := Verify(again, key, nil); !errors.Is(err, ErrOtherRules) {
			t.Errorf("%s: %v, want a plain refusal", name, err)
		}
	}
}

// Each bundle has the same two attestations, and they state the same.
func TestVerifyAttestations(t *testing.T) {
	file := newCertification(t, "HA-QR-005").bundle(t, testKey(t))
	dir := t.TempDir()
	b, err := bundle.Open(file, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "attestations")); err != nil {
		t.Fatal(err)
	}
	result, verdicts := b.Predicates[0], b.Predicates[1]
	renamed, lying, third := verdicts, result, verdicts
	further := func(name string, value any) bundle.Predicate {
		fields := map[string]any{}
		if err := json.Unmarshal(verdicts.Body.(json.RawMessage), &fields); err != nil {
			t.Fatal(err)
		}
		if name == "verdict\u017f" { // Go reads it as verdicts
			value, fields["verdicts"] = fields["verdicts"], []any{}
		}
		fields[name] = value
		return bundle.Predicate{Name: verdicts.Name, Type: verdicts.Type, Body: fields}
	}
	renamed.Name = "verdict"
	lying.Body = testResult{Result: "PASSED"}
	third.Name, third.Type = "third", SVRType
	for name, test := range map[string]struct {
		all  []bundle.Predicate
		want string
	}{
		"as made":             {b.Predicates, ""},
		"one left out":        {[]bundle.Predicate{verdicts}, "but this one has others"},
		"one renamed":         {[]bundle.Predicate{result, renamed}, "but this one has others"},
		"one too many":        {[]bundle.Predicate{result, verdicts, third}, "but this one has others"},
		"one that lies":       {[]bundle.Predicate{lying, verdicts}, "the attestation test-result states"},
		"a further field":     {[]bundle.Predicate{result, further("note", "best of all")}, "the attestation verdicts has other fields or values"},
		"a field in disguise": {[]bundle.Predicate{result, further("verdict\u017f", nil)}, "the attestation verdicts has other fields or values"},
	} {
		again := filepath.Join(t.TempDir(), "bundle.tar")
		if err := bundle.Write(again, dir, testKey(t), test.all...); err != nil {
			t.Fatal(err)
		}
		v, err := Verify(again, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(v.Problems, "\n"); v.Holds() != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// Verify detects the same observations under the name of another experiment, even if everything
// else was made to match.
func TestVerifyCopied(t *testing.T) {
	c := newCertification(t, "HA-QR-005")
	first, second := c.plan.Scenarios[0], c.plan.Scenarios[1]
	file := c.bundle(t, testKey(t))
	again, key := forged(t, file, func(dir string, _ *Statement) {
		(&certification{dir: dir, plan: c.plan}).record(t, second, first.Metadata.Name, func(*record.Meta) {})
	})
	v, err := Verify(again, key, nil)
	if err != nil || v.Holds() || !strings.Contains(strings.Join(v.Problems, "\n"), "one is a copy of the other") {
		t.Errorf("%+v, %v", v, err)
	}
}
