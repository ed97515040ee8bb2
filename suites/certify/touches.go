package certify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// touch is how a certification breaks or changes a cluster in one way.
type touch struct {
	change bool // a change of nodes, such as an upgrade, and not a fault
	times  int
	// kinds are the kinds of targets, such as etcd; nodes are the positions of the nodes among
	// those of the cluster, as far as the plan says which.
	kinds map[string]bool
	nodes map[int]bool
}

// touches returns all faults and changes of a plan by name. A role, such as that of the leader, is
// moved to the node whose turn it is.
func touches(p *run.Plan) map[string]*touch {
	all := map[string]*touch{}
	of := func(name string, change bool) *touch {
		if all[name] == nil {
			all[name] = &touch{change: change, kinds: map[string]bool{}, nodes: map[int]bool{}}
		}
		all[name].times++
		return all[name]
	}
	for _, s := range p.Scenarios {
		nodes := len(p.Part(s).Cluster.Spec.Nodes)
		if s.NotFor(nodes) != "" {
			continue
		}
		for _, step := range s.Spec.Timeline {
			switch in, a := step.Inject, step.Action; {
			case in != nil:
				of(in.Fault, false).hits(in.Target, s.Victim, nodes)
			case a != nil && engine.ChangesNodes(a.Name):
				t := of(a.Name, true)
				for word := range strings.SplitSeq(a.Node, ",") {
					t.changes(strings.TrimSpace(word))
				}
			}
		}
	}
	return all
}

// together is the kind of a target that is all nodes.
const together = "all control-plane nodes at the same time"

// hits adds the target of a fault in a turn of a scenario.
func (t *touch) hits(target string, victim, nodes int) {
	kind, _, _ := strings.Cut(target, "/")
	if target == "nodes" {
		kind = together
	}
	t.kinds[kind] = true
	named, err := fault.Names(target)
	switch {
	case err != nil: // the scenario would be invalid
	case target == "nodes":
		for n := range nodes {
			t.nodes[n+1] = true
		}
	case named.Number > 0:
		t.nodes[named.Number] = true
	case named.Role != "" && victim > 0:
		t.nodes[victim] = true
	}
}

// changes adds the node of a change, if the plan says which.
func (t *touch) changes(node string) {
	if named, err := fault.Names("node/" + strings.TrimPrefix(node, "node/")); err == nil && named.Number > 0 {
		t.nodes[named.Number] = true
	}
}

// line describes the touch of a name for a cluster with these nodes.
func (t *touch) line(name string, nodes []string) string {
	text := fmt.Sprintf("  %s, once", name)
	if t.times > 1 {
		text = fmt.Sprintf("  %s, %d times", name, t.times)
	}
	what := strings.Join(slices.Sorted(maps.Keys(t.kinds)), ", ")
	where := "every control-plane node"
	if len(t.nodes) < len(nodes) {
		var names []string
		for _, n := range slices.Sorted(maps.Keys(t.nodes)) {
			if n <= len(nodes) {
				names = append(names, nodes[n-1])
			}
		}
		where = strings.Join(names, ", ")
	}
	switch {
	case what == together:
		return text + ": " + what
	case what != "" && where != "":
		return text + ": " + what + " on " + where
	case what+where != "":
		return text + ": " + what + where
	}
	return text
}

// PlanLines describes what a certification does before it starts, briefly: its rows, experiments
// and clusters, how long they are expected to take, and all faults and changes with the nodes that
// they hit.
func PlanLines(p *run.Plan, expected time.Duration) []string {
	size := reports.Plural(len(p.Cluster.Spec.Nodes), "control-plane node")
	on := fmt.Sprintf("%s of %s, %d at a time", reports.Plural(len(p.Parts), "cluster"), size, p.Parallel)
	switch {
	case p.Attach:
		on = fmt.Sprintf("the existing cluster %s, which is kept", p.Cluster.Metadata.Name)
	case len(p.Parts) == 1:
		on = "a cluster of " + size
	}
	lines := []string{rowsLine(p), fmt.Sprintf("%s on %s; about %s", experimentsOf(p), on, expected.Round(time.Second))}
	all, nodes := touches(p), nodesOf(p)
	for _, change := range []bool{false, true} {
		var some []string
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if all[name].change == change {
				some = append(some, all[name].line(name, nodes))
			}
		}
		if len(some) > 0 {
			lines = append(lines, map[bool]string{false: "it breaks:", true: "it changes:"}[change])
			lines = append(lines, some...)
		}
	}
	if len(all) == 0 {
		lines = append(lines, "it breaks nothing")
	}
	if open := Untestable(p); len(open) > 0 {
		lines = append(append(lines, "it cannot certify these rows, since no scenario that settles them can run here:"), open...)
	}
	return lines
}

// Untestable returns a line for each row that no scenario of the plan can settle, unless the
// cluster's design is the reason.
func Untestable(p *run.Plan) (lines []string) {
	for _, id := range p.Rows {
		why, testable, design := "", false, true
		for _, s := range p.Scenarios {
			if !slices.ContainsFunc(s.Spec.Requirements, func(r scenarios.Settles) bool { return r.ID == id }) {
				continue
			}
			reason := cmp.Or(s.MissingFor[id], s.NotFor(len(p.Part(s).Cluster.Spec.Nodes)))
			testable, design = testable || reason == "", design && s.ByDesign
			why = cmp.Or(why, reason)
		}
		if why != "" && !testable && !design {
			lines = append(lines, fmt.Sprintf("  %s: %s", id, why))
		}
	}
	return lines
}

func rowsLine(p *run.Plan) string {
	switch Class(p.Rows, ProfileOf(p)) {
	case "must":
		return fmt.Sprintf("certify %d rows: all MUST rows that a scenario settles", len(p.Rows))
	case "conformance":
		return fmt.Sprintf("certify %d rows: those that %s requires", len(p.Rows), Profile)
	case "observed":
		return fmt.Sprintf("observe %d rows: those that need no fault", len(p.Rows))
	}
	return "certify " + strings.Join(p.Rows, ", ")
}

// experimentsOf counts the experiments of a plan, and the scenarios that they are turns of.
func experimentsOf(p *run.Plan) string {
	of, experiments, away := map[string]bool{}, 0, 0
	for _, s := range p.Scenarios {
		if s.NotFor(len(p.Part(s).Cluster.Spec.Nodes)) != "" {
			away++
			continue
		}
		of[cmp.Or(s.Of, s.Metadata.Name)] = true
		experiments++
	}
	each := "each repeated"
	if len(of) == 1 {
		each = "repeated"
	}
	text := fmt.Sprintf("%s (%s, %s with every node as the victim", reports.Plural(experiments, "experiment"), reports.Plural(len(of), "scenario"), each)
	if away > 0 {
		text += fmt.Sprintf("; %d more do not apply", away)
	}
	return text + ")"
}
