package certify

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// planOf is the plan of a certification of rows, on clusters that are not made.
func planOf(t *testing.T, rows string) *run.Plan {
	ids, profile, err := Select(rows)
	if err != nil {
		t.Fatal(err)
	}
	spec := clusters.Default()
	spec.SetNodes(3)
	p := run.New(local.Provider{}, spec, run.InTurn(spec, Scenarios(ids, profile), Turns, nil), 7, "v1")
	p.Rows, p.Profile = ids, profile
	if err := p.Divide(local.Provider{}, 2); err != nil {
		t.Fatal(err)
	}
	return p
}

// The plan that is shown before a certification names every fault and every change, with the
// nodes that they hit, and stays short.
func TestPlanLines(t *testing.T) {
	for rows, want := range map[string][]string{
		"HA-QR-005":   {"certify HA-QR-005", "6 experiments (2 scenarios, each repeated with every node as the victim) on 2 clusters of 3 control-plane nodes, 2 at a time; about 5m0s", "it breaks:", "\n  kill, ", "etcd on every control-plane node"},
		"HA-SEC-004":  {"it changes:", "\n  rotate-certificates, 9 times: every control-plane node"},
		"HA-UP-001":   {"\n  upgrade, "},
		"conformance": {" scenarios, each repeated with every node as the victim) on ", "certify 12 rows: those that HAConformance-1.37 requires", "it breaks:", "it changes:", "on every control-plane node"},
		"must":        {"rows: all MUST rows that a scenario settles", "it breaks:"},
		"observed":    {"rows: those that need no fault", "it breaks nothing"},
	} {
		lines := PlanLines(planOf(t, rows), 5*time.Minute)
		text := strings.Join(lines, "\n")
		if len(lines) > 60 {
			t.Errorf("%s: %d lines", rows, len(lines))
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: it lacks %q:\n%s", rows, w, text)
			}
		}
	}
	p := planOf(t, "HA-QR-005,HA-UP-001")
	for i, s := range p.Scenarios {
		if slices.ContainsFunc(s.Spec.Requirements, func(r scenarios.Settles) bool { return r.ID == "HA-UP-001" }) {
			copied := *s
			copied.Missing = "not here"
			p.Scenarios[i] = &copied
		}
	}
	if text := strings.Join(PlanLines(p, time.Minute), "\n"); !strings.Contains(text, "it cannot certify these rows") || !strings.Contains(text, "\n  HA-UP-001: not here") || strings.Contains(text, "  HA-QR-005:") {
		t.Error(text)
	}
	p = planOf(t, "HA-QR-005")
	p.Attach, p.Cluster.Metadata.Name = true, "theirs"
	if text := strings.Join(PlanLines(p, time.Minute), "\n"); !strings.Contains(text, "on the existing cluster theirs, which is kept") {
		t.Error(text)
	}
}

// The nodes are those that the targets of a turn hit.
func TestTouches(t *testing.T) {
	touched := func(target string, victim int) *touch {
		one := &touch{times: 1, kinds: map[string]bool{}, nodes: map[int]bool{}}
		one.hits(target, victim, 3)
		return one
	}
	nodes := []string{"node-1", "node-2", "node-3"}
	for target, want := range map[string]string{
		"etcd/leader":     "  x, once: etcd on node-2",
		"node/kcm/active": "  x, once: node on node-2",
		"apiserver/3":     "  x, once: apiserver on node-3",
		"balancer":        "  x, once: balancer",
		"zone/a":          "  x, once: zone",
		"nodes":           "  x, once: all control-plane nodes at the same time",
	} {
		if got := touched(target, 2).line("x", nodes); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}
