package certify

import (
	"bytes"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// stated checks the statement about the run against the plan.
func (v *verifier) stated() {
	s, p := v.v.Statement, v.plan
	for _, f := range []struct{ what, stated, planned string }{
		{"the run", s.Run, p.Run}, {"the provider", s.Provider, p.Provider}, {"the version of holdfast", s.Tool.Version, p.Harness},
		{"the version of Kubernetes", s.Versions.Kubernetes, p.Cluster.Spec.KubernetesVersion},
		{"the start", s.Started.UTC().Format(time.RFC3339Nano), p.Started.UTC().Format(time.RFC3339Nano)},
		{"the end", s.Ended.UTC().Format(time.RFC3339Nano), p.Ended.UTC().Format(time.RFC3339Nano)},
	} {
		if f.stated != f.planned {
			v.problem("%s is stated as %s, but the plan has %s", f.what, f.stated, f.planned)
		}
	}
	if !HasItsVersion(p.Cluster) {
		v.problem("the version of Kubernetes is stated as %s, but no node of the plan's cluster has it", s.Versions.Kubernetes)
	}
	if end := run.SeedMark(p.Seed); !strings.HasSuffix(p.Run, end) {
		v.problem("the plan has seed %d, but run %s had another seed: with this one its name would end with %s", p.Seed, p.Run, end)
	}
}

// HasItsVersion reports whether a control-plane node of a cluster has the cluster's Kubernetes version,
// which a certificate states: a cluster file may give each node another one.
func HasItsVersion(c *clusters.Cluster) bool {
	return slices.ContainsFunc(c.Nodes(), func(n clusters.Node) bool { return n.KubernetesVersion == c.Spec.KubernetesVersion })
}

// files checks that the bundle has no file that the plan does not explain.
func (v *verifier) files() {
	known := map[string]bool{run.PlanFile: true, resultsFile: true}
	for _, s := range v.plan.Scenarios {
		known[filepath.ToSlash(filepath.Join(record.Dir("", s.Metadata.Name), record.FileName))] = true
	}
	for _, name := range v.bundle.Names {
		if !known[name] && !strings.HasPrefix(name, "logs/") {
			v.problem("%s is in the bundle, and nothing in the plan explains it", name)
		}
	}
}

// planned checks that the plan has exactly the experiments that its rows require, as the
// catalogue has them.
func (v *verifier) planned() {
	profile := ProfileOf(v.plan)
	if len(v.plan.Rows) == 0 {
		v.problem("the run certifies nothing: its plan names no rows")
	}
	if profile == Observing && !slices.Equal(v.plan.Rows, Observed()) {
		v.problem("an observation covers all %d rows that need no fault, and the plan has other rows", len(Observed()))
	}
	for _, id := range v.plan.Rows {
		if len(settling(id, profile)) == 0 {
			v.problem("%s is a row that no scenario of the catalogue settles", id)
		}
	}
	nodes := len(v.plan.Cluster.Spec.Nodes)
	if nodes == 0 {
		v.problem("the plan's cluster has no nodes")
		return
	}
	planned := map[string]*scenarios.Scenario{}
	for _, s := range v.plan.Scenarios {
		if planned[s.Metadata.Name] != nil {
			v.problem("the plan has %s twice", s.Metadata.Name)
		}
		planned[s.Metadata.Name] = s
	}
	for _, base := range Scenarios(v.plan.Rows, profile) {
		if left := planned[base.Metadata.Name]; left != nil && left.NotFor(nodes) != "" && left.Victim == 0 {
			switch {
			case !v.same(left, base, base):
				v.problem("%s in the plan is not as the catalogue has it", base.Metadata.Name)
			case left.ByDesign && !run.AsDescribed(v.plan.Cluster, []*scenarios.Scenario{base})[0].ByDesign:
				v.problem("%s is left out for a cluster design that the plan's cluster does not have", base.Metadata.Name)
			}
			delete(planned, base.Metadata.Name)
			continue
		}
		for victim := 1; victim <= max(Turns, nodes); victim++ {
			turn := base.InTurn(victim, nodes)
			switch s := planned[turn.Metadata.Name]; {
			case s == nil:
				v.problem("the plan lacks %s, which the rows need", turn.Metadata.Name)
			case !v.same(s, turn, base) || s.Missing != "" || s.ByDesign || len(s.MissingFor) > 0:
				v.problem("%s in the plan is not as the catalogue has it", turn.Metadata.Name)
			case v.repeated(turn.Metadata.Name):
				v.v.Repeated = append(v.v.Repeated, turn.Metadata.Name)
			}
			delete(planned, turn.Metadata.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(planned)) {
		v.problem("the plan has %s, which the rows do not need", name)
	}
}

// repeated reports whether a part of the run judged a scenario and a later one ran it again, as on an
// overloaded machine.
func (v *verifier) repeated(scenario string) bool {
	judged := false
	for _, part := range v.plan.Parts {
		if judged && slices.Contains(part.Scenarios, scenario) {
			return true
		}
		_, here := part.Judging[scenario]
		judged = judged || here
	}
	return false
}

// same reports whether a scenario of a plan equals the catalogue's, which is base or a turn of it.
// It may be left out with a reason, and may run unchanged on a cluster that the user described.
func (v *verifier) same(planned, known, base *scenarios.Scenario) bool {
	if planned.Missing == "" && !slices.ContainsFunc(v.asked(base), func(t scenarios.Topology) bool { return reflect.DeepEqual(t, planned.Spec.Cluster) }) {
		return false
	}
	plain := func(s scenarios.Scenario) []byte {
		s.Missing, s.MissingFor, s.ByDesign, s.Spec.Cluster = "", nil, false, scenarios.Topology{}
		var text bytes.Buffer
		if err := reports.WriteJSON(&text, s); err != nil {
			return nil
		}
		return text.Bytes()
	}
	text := plain(*planned)
	return text != nil && bytes.Equal(text, plain(*known))
}

// asked returns what a scenario may ask of its cluster in the plan: what it asks in the catalogue,
// and, if it applies to the plan's cluster as the user described it, nothing but that.
func (v *verifier) asked(base *scenarios.Scenario) []scenarios.Topology {
	asked := []scenarios.Topology{base.Spec.Cluster}
	if described := run.AsDescribed(v.plan.Cluster, []*scenarios.Scenario{base})[0]; described.Missing == "" {
		asked = append(asked, described.Spec.Cluster)
	}
	return asked
}
