package judges

import (
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var controlPlaneComplete = Definition{Doc{
	Name:      "control-plane-complete",
	Needs:     []record.Access{record.Processes},
	Guarantee: "Every control-plane node runs an API server, a controller manager and a scheduler (one that supervisors elect: some node), and every API server answers /readyz, directly and through the load balancer, which forwards to each of them.",
	Source:    "High Availability Kubernetes Clusters (admin guide)",
}, judgeControlPlaneComplete}

func judgeControlPlaneComplete(m *facts.Case) Finding {
	from, to := m.Quiet()
	type where struct{ node, component string }
	processes := map[where]record.ProcessState{}
	for _, p := range m.Run.Processes {
		if p.At <= to {
			processes[where{p.V.Node, p.V.Component}] = p.V
		}
	}
	ready := map[string]record.Op{}
	for _, o := range m.Run.Ops {
		if op := o.V; op.Purpose == "ready" && op.Key == "/readyz" && op.Call <= to {
			ready[op.Entrance] = op
		}
	}

	var broken, missing, evidence []string
	running, timed := 0, true
	standby := map[string]int{}
	nodes := slices.DeleteFunc(slices.Clone(m.Run.Meta.Nodes), facts.EtcdAlone)
	for _, n := range nodes {
		for _, c := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
			p, ok := processes[where{n.Name, c}]
			switch {
			case !ok:
				missing = append(missing, "the state of "+c+" on "+n.Name)
			case p.PID > 0 && !strings.ContainsAny(p.State, "ZXT"):
				running++
			case p.Standby:
				standby[c]++
			case p.Error != "":
				missing = append(missing, "the state of "+c+" on "+n.Name+" ("+p.Error+")")
			default:
				timed = false
				s := c + " does not run on " + n.Name
				if p.State != "" {
					s += " (state " + p.State + ")"
				}
				if p.LastExit != "" {
					evidence = append(evidence, c+" on "+n.Name+" exited with "+p.LastExit)
				}
				broken = append(broken, s)
			}
		}
	}
	for _, e := range m.Run.Meta.Entrances {
		switch op, ok := ready[e]; {
		case !ok:
			missing = append(missing, "a request for /readyz through "+e)
		case op.Outcome != record.OK:
			broken = append(broken, "/readyz does not answer ok through "+e)
			evidence = append(evidence, text.Describe(op))
		}
	}
	without, unknown := m.BalancerLeads(to)
	if len(without) > 0 {
		servers := "the API server on "
		if len(without) > 1 {
			servers = "the API servers on "
		}
		broken = append(broken, "the load balancer does not forward to "+servers+text.And(without))
	}
	if unknown != "" {
		missing = append(missing, unknown)
	}
	want := 3 * len(nodes)
	for _, c := range slices.Sorted(maps.Keys(standby)) {
		if want -= standby[c]; standby[c] == len(nodes) {
			broken = append(broken, c+" stands by on every node")
		}
	}
	if len(broken) > 0 {
		f := Failed("Every control-plane node must run an API server, a controller manager and a scheduler, and every entrance must answer /readyz: %s.", text.And(broken)).
			counted("%d of %d processes", running, want).Shows(evidence...)
		if timed {
			f = f.Rests(from, to)
		}
		return f
	}
	if len(missing) > 0 || want == 0 || len(m.Run.Meta.Entrances) == 0 {
		return Inconclusive("the record lacks %s", text.And(missing)).counted("%d of %d processes", running, want)
	}
	leads := ""
	if m.Balanced() {
		leads = "; the load balancer forwards to all of them"
	}
	return Passed("Each of %d nodes runs an API server, a controller manager and a scheduler, and /readyz answers ok through %s%s.",
		len(nodes), text.And(m.Run.Meta.Entrances), leads).counted("%d of %d processes, %d of %d entrances", running, want, len(ready), len(ready))
}
