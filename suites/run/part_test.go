package run

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// asking returns a scenario that takes some seconds and asks for a cluster.
func asking(name string, seconds int, wants scenarios.Topology) *scenarios.Scenario {
	return &scenarios.Scenario{Metadata: scenarios.Metadata{Name: name},
		Spec: scenarios.Spec{Cluster: wants, Timeline: []engine.Step{{Wait: fmt.Sprintf("%ds", seconds)}}}}
}

func TestDivide(t *testing.T) {
	plain := scenarios.Topology{}
	fuse := scenarios.Topology{Disk: "fuse"}
	slow := scenarios.Topology{ExtraArgs: map[string]map[string]string{"etcd": {"election-timeout": "3000"}}}
	large := asking("large", 10, plain)
	large.Spec.MinNodes = 5
	type all []*scenarios.Scenario
	var many all
	for i := range 12 {
		many = append(many, asking(fmt.Sprint("m", i), 30, plain))
	}
	for _, tc := range []struct {
		name     string
		all      all
		parallel int
		want     string // the scenarios of each part
	}{
		{"all share one", all{asking("a", 9, plain), asking("b", 9, plain)}, 1, "a b"},
		{"what the run has anyway", all{asking("a", 9, plain), asking("b", 9, scenarios.Topology{LoadBalancer: "builtin", Disk: "none"})}, 1, "a b"},
		{"two kinds, the longest first", all{asking("a", 9, plain), asking("b", 9, fuse), asking("c", 9, fuse)}, 1, "b c, a"},
		{"arguments", all{asking("a", 9, slow), asking("b", 9, plain), asking("c", 9, slow)}, 1, "a c, b"},
		{"one of its own", all{asking("a", 9, plain), asking("b", 10, scenarios.Topology{Own: true}), asking("c", 9, plain)}, 1, "a c, b"},
		{"two of their own", all{asking("a", 9, scenarios.Topology{Own: true}), asking("b", 10, scenarios.Topology{Own: true})}, 1, "b, a"},
		{"what does not apply", all{large, asking("a", 9, fuse)}, 1, "a"},
		{"nothing applies", all{large}, 2, ""},
		{"two side by side", all{asking("a", 30, plain), asking("b", 40, plain), asking("c", 20, plain)}, 2, "a c, b"},
		{"not worth another cluster", all{asking("a", 1, plain), asking("b", 1, plain)}, 2, "a b"},
		{"two kinds fill two", all{asking("a", 30, plain), asking("b", 30, plain), asking("c", 60, fuse)}, 2, "a b, c"},
		{"the long group fills up", all{asking("a", 40, plain), asking("b", 40, plain), asking("c", 40, plain), asking("d", 20, fuse)}, 2, "a c, b, d"},
		{"more room than scenarios", all{asking("a", 30, plain), asking("b", 30, fuse)}, 8, "a, b"},
		{"many", many, 3, "m0 m3 m6 m9, m1 m4 m7 m10, m2 m5 m8 m11"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			parts, err := Divide(clusters.Default(), tc.all, tc.parallel, 8*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, p := range parts {
				got = append(got, strings.Join(p.Scenarios, " "))
				if want := fmt.Sprintf("cluster-%d", i+1); p.Name != want || i > 0 && p.Expected > parts[i-1].Expected {
					t.Errorf("part %d is %s, after %s, and takes %s", i, p.Name, want, p.Expected)
				}
			}
			if strings.Join(got, ", ") != tc.want {
				t.Errorf("parts are %q, want %q", strings.Join(got, ", "), tc.want)
			}
		})
	}
	parts, err := Divide(clusters.Default(), all{asking("a", 9, plain), asking("b", 1, fuse)}, 1, 8*time.Second)
	if err != nil || parts[0].Cluster.Spec.Disk != clusters.DiskNone || parts[1].Cluster.Spec.Disk != clusters.DiskFUSE {
		t.Errorf("%+v, %v", parts, err)
	}
	parts, err = Divide(clusters.Default(), all{asking("a", 30, plain), asking("b", 40, plain), asking("c", 20, plain)}, 2, 2*time.Minute)
	if err != nil || len(parts) != 1 || parts[0].Expected < 3*time.Minute {
		t.Errorf("where making a cluster takes long: %+v, %v", parts, err)
	}
	if _, err := Divide(clusters.Default(), all{asking("odd", 9, scenarios.Topology{Disk: "floppy"})}, 1, 0); err == nil || !strings.Contains(err.Error(), "scenario odd asks for") {
		t.Errorf("a disk that there is not: %v", err)
	}
}

// A cluster whose nodes a scenario changes is not shared, and two scenarios never have one name.
func TestDivideByChanges(t *testing.T) {
	changing := asking("changing", 9, scenarios.Topology{})
	changing.Spec.Timeline = append(changing.Spec.Timeline, engine.Step{Action: &engine.Action{Name: "reconfigure", Node: "1", ID: "one"}})
	parts, err := Divide(clusters.Default(), []*scenarios.Scenario{changing, asking("next", 9, scenarios.Topology{})}, 1, 0)
	if err != nil || len(parts) != 2 {
		t.Errorf("a cluster whose nodes are changed: %+v, %v", parts, err)
	}
	twice := []*scenarios.Scenario{asking("a", 9, scenarios.Topology{}), asking("a", 9, scenarios.Topology{})}
	if _, err := Divide(clusters.Default(), twice, 1, 0); err == nil || !strings.Contains(err.Error(), "two scenarios are named a") {
		t.Errorf("two scenarios with one name: %v", err)
	}
}

// Every scenario is in exactly one part.
func TestDivideHasAll(t *testing.T) {
	kinds := []scenarios.Topology{{}, {Disk: "fuse"}, {Own: true}, {LoadBalancer: "none"}}
	for n := range 40 {
		var all []*scenarios.Scenario
		var want []string
		for i := range n {
			s := asking(fmt.Sprint("s", i), i*17%61+1, kinds[i*n%7%len(kinds)])
			all, want = append(all, s), append(want, s.Metadata.Name)
		}
		for _, parallel := range []int{0, 1, 2, 5} {
			parts, err := Divide(clusters.Default(), all, parallel, 8*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range parts {
				got = append(got, p.Scenarios...)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%d scenarios, %d at a time: %v", n, parallel, got)
			}
		}
	}
}

func TestEnds(t *testing.T) {
	parts := []Part{{Expected: 50 * time.Second}, {Expected: 30 * time.Second}, {Expected: 10 * time.Second}, {Expected: 15 * time.Second}}
	for parallel, want := range map[int]string{1: "[50s 1m20s 1m30s 1m45s]", 2: "[50s 30s 40s 55s]", 4: "[50s 30s 10s 15s]"} {
		if got := fmt.Sprint(Ends(parts, parallel)); got != want {
			t.Errorf("%d at a time: %s, want %s", parallel, got, want)
		}
	}
}

// having is a cluster that has only nodes.
type having struct {
	framework.Cluster
	nodes []string
}

type named struct {
	framework.Node
	name string
}

func (n named) Name() string { return n.name }

func (h having) Nodes() (all []framework.Node) {
	for _, n := range h.nodes {
		all = append(all, named{name: n})
	}
	return all
}

func TestLeftAsFound(t *testing.T) {
	steady := record.Steady{Phase: "after", OK: true}
	injected := record.Fault{ID: "a", Phase: record.FaultInjected, Proven: true}
	healed := record.Fault{ID: "a", Phase: record.FaultHealed, Proven: true}
	failed := record.Fault{ID: "a", Phase: record.FaultFailed}
	for name, tc := range map[string]struct {
		steady []record.Steady
		faults []record.Fault
		nodes  []string
		want   bool
	}{
		"nothing is said":     {nil, nil, []string{"node-1"}, false},
		"unhealthy before":    {[]record.Steady{{Phase: "before"}}, nil, []string{"node-1"}, false},
		"cut short":           {[]record.Steady{{Phase: "before", OK: true}}, nil, []string{"node-1"}, false},
		"steady":              {[]record.Steady{{Phase: "after"}, steady}, nil, []string{"node-1"}, true},
		"not steady at last":  {[]record.Steady{steady, {Phase: "after"}}, nil, []string{"node-1"}, false},
		"parts steady":        {[]record.Steady{steady, {Phase: record.SteadyPart, OK: true}}, nil, []string{"node-1"}, true},
		"a part not steady":   {[]record.Steady{steady, {Phase: record.SteadyPart}}, nil, []string{"node-1"}, false},
		"healed":              {[]record.Steady{steady}, []record.Fault{injected, healed}, []string{"node-1"}, true},
		"not healed":          {[]record.Steady{steady}, []record.Fault{injected}, []string{"node-1"}, false},
		"healed unproven":     {[]record.Steady{steady}, []record.Fault{injected, {ID: "a", Phase: record.FaultHealed}}, []string{"node-1"}, false},
		"healing failed":      {[]record.Steady{steady}, []record.Fault{injected, failed}, []string{"node-1"}, false},
		"healed when retried": {[]record.Steady{steady}, []record.Fault{injected, failed, healed}, []string{"node-1"}, true},
		"injection failed":    {[]record.Steady{steady}, []record.Fault{failed}, []string{"node-1"}, false},
		"injection refused":   {[]record.Steady{steady}, []record.Fault{{ID: "a", Phase: record.FaultFailed, Untouched: true}}, []string{"node-1"}, true},
		"fault not possible":  {[]record.Steady{steady}, []record.Fault{{ID: "a", Phase: record.FaultFailed, Missing: "Killer"}}, []string{"node-1"}, true},
		"a node too many":     {[]record.Steady{steady}, nil, []string{"node-1", "node-2"}, false},
		"another node":        {[]record.Steady{steady}, nil, []string{"node-2"}, false},
	} {
		run := &record.Run{Meta: record.Meta{Nodes: []record.Node{{Name: "node-1"}}}}
		for _, s := range tc.steady {
			run.Steadies = append(run.Steadies, record.Timed[record.Steady]{V: s})
		}
		for _, f := range tc.faults {
			run.Faults = append(run.Faults, record.Timed[record.Fault]{V: f})
		}
		if got := LeftAsFound(run, having{nodes: tc.nodes}); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
