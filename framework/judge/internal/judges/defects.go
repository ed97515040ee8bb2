package judges

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Defects returns what a judge finds in the record of a cluster that was unhealthy before an
// experiment without faults; nil for a judge that concludes nothing from such a record. What it finds
// is what the cluster itself answered, or what was seen on its nodes, for as long as the record
// lasts: a server that cannot be reached may be one that only the harness cannot reach. Without a
// defect, the finding is nil.
func Defects(judge string) func(*facts.Case) *Finding {
	switch judge {
	case "control-plane-complete":
		return incomplete
	case "etcd-membership":
		return unhealthyMembers
	}
	return nil
}

// incomplete finds components that never ran, and API servers that answered only with errors.
func incomplete(m *facts.Case) *Finding {
	var broken, evidence []string
	for _, n := range m.Run.Meta.Nodes {
		if facts.EtcdAlone(n) {
			continue
		}
		for _, c := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
			if neverRan(m.Run, n.Name, c) {
				broken = append(broken, c+" does not run on "+n.Name)
			}
		}
		if last := onlyErrors(m.Run, n.Name); last != nil {
			broken = append(broken, "the API server on "+n.Name+" answers every request with an error")
			evidence = append(evidence, fmt.Sprintf("the last answer of the API server on %s was status %d: %s", n.Name, last.Status, last.Error))
		}
	}
	if len(broken) == 0 {
		return nil
	}
	return Failed("Every control-plane node must run an API server, a controller manager and a scheduler, and every entrance must answer /readyz: from the start of the record to its end, %s.", text.And(broken)).
		counted("defects: %d", len(broken)).Shows(evidence...).Rests(0, m.Run.EndAt).problem()
}

// neverRan reports whether every answer of a node, two or more of them, was that it runs no process of
// a component. The first answer and the last one are always in a record, and each change between them.
func neverRan(run *record.Run, node, component string) bool {
	n := 0
	for _, p := range run.Processes {
		if p.V.Node != node || p.V.Component != component {
			continue
		}
		if p.V.Error != "" || p.V.Standby || p.V.PID > 0 && !strings.ContainsAny(p.V.State, "ZX") {
			return false
		}
		n++
	}
	return n >= 2
}

// fewestErrors is how many errors an API server must answer.
const fewestErrors = 10

// onlyErrors returns the last error that the API server on a node answered, if all its answers were
// errors of the server and there are enough of them. Requests without an answer do not count.
func onlyErrors(run *record.Run, node string) (last *record.Probe) {
	n := 0
	for i, p := range run.Probes {
		switch {
		case p.V.Entrance != node || p.V.Status == 0 && !p.V.OK:
			continue
		case p.V.OK || p.V.Status < 500:
			return nil
		}
		n, last = n+1, &run.Probes[i].V
	}
	if n < fewestErrors {
		return nil
	}
	return last
}

// unhealthyMembers finds alarms, members of several clusters, members that know no leader, and
// members that never ran.
func unhealthyMembers(m *facts.Case) *Finding {
	alarms, clusters := map[string]string{}, map[string]string{}
	answers, leads, quiet := map[string]int{}, map[string]bool{}, map[string]bool{} // without an alarm
	for _, s := range record.Each(m.Run.Etcd) {
		if !s.OK {
			continue
		}
		if answers[s.Node]++; s.Leader != "" {
			leads[s.Node] = true
		}
		if alarms[s.Node] = text.And(s.Alarms); len(s.Alarms) == 0 {
			quiet[s.Node] = true
		}
		if s.Cluster != "" {
			clusters[s.Node] = s.Cluster
		}
	}
	var broken []string
	for _, n := range slices.Sorted(maps.Keys(alarms)) {
		if !quiet[n] {
			broken = append(broken, "the member on "+n+" reports "+alarms[n])
		}
	}
	ids := slices.Compact(slices.Sorted(maps.Values(clusters)))
	if len(ids) > 1 {
		var list []string
		for _, n := range slices.Sorted(maps.Keys(clusters)) {
			list = append(list, clusters[n]+" on "+n)
		}
		broken = append(broken, "the members belong to several clusters ("+text.And(list)+")")
	}
	for _, n := range m.NodesWith("etcd") {
		switch {
		case answers[n.Name] >= 2 && !leads[n.Name]:
			broken = append(broken, "the member on "+n.Name+" knows no leader")
		case neverRan(m.Run, n.Name, "etcd"):
			broken = append(broken, "no member runs on "+n.Name)
		}
	}
	if len(broken) == 0 {
		return nil
	}
	return Failed("etcd must be healthy, with one leader, one cluster ID and no alarm: from the start of the record to its end, %s.", text.And(broken)).
		counted("defects: %d", len(broken)).Rests(0, m.Run.EndAt).problem()
}
