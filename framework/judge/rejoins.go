package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func rejoins() definition {
	return definition{Doc{
		Name:       "rejoins",
		Guarantee:  "A node that has its power back rejoins unaided within the bound: each of its components runs, its etcd member follows a leader, and its API server answers quorum reads.",
		Source:     "Control plane resilience overview; High Availability Kubernetes Clusters (admin guide)",
		NeedsFault: true, NeedsBound: true,
	}, judgeRejoins}
}

func judgeRejoins(m *matter) finding {
	back := m.fault.healed.Called
	switch f := m.fault.injected; f.Name {
	case "power-off":
	case "reboot":
		off, err := time.ParseDuration(f.Params["off"])
		if err != nil {
			return inconclusive("the record does not say for how long the nodes were off")
		}
		back = f.Called + record.Nanos(off)
	default:
		return inconclusive("the %s takes no node's power", m.fault.what())
	}
	// Asked for a little earlier than the bound is no time to judge.
	until := m.nextInjection(m.fault.effect())
	if until > m.run.EndAt {
		until = m.run.EndAt
	}
	var took time.Duration
	last := ""
	var lastAt record.Nanos
	parts := 0
	for _, node := range m.fault.nodes() {
		for _, part := range m.partsOf(node) {
			parts++
			at := part.since(back)
			if at > until {
				if waited := span(back, until); waited > m.bound.Limit {
					return failed("A node must rejoin within %s of getting its power back: %s did not for %s after the %s.",
						m.bound, part.name, short(waited), m.fault.what()).took(waited).rests(back, until)
				}
				return inconclusive("%s had not come back when it was last looked at, %s after the power, which is less than the bound of %s",
					part.name, short(span(back, until)), m.bound)
			}
			if d := span(back, at); d >= took {
				took, last, lastAt = d, part.name, at
			}
		}
	}
	if parts == 0 {
		return inconclusive("the record has no component of %s", and(m.fault.nodes()))
	}
	if took > m.bound.Limit {
		return failed("A node must rejoin within %s of getting its power back: after the %s, %s came back after %s.", m.bound, m.fault.what(), last, short(took)).
			took(took).rests(back, lastAt)
	}
	return passed("%s rejoined unaided: all of %d processes, etcd members and API servers were back %s after the power at the latest (%s), within %s.",
		and(m.fault.nodes()), parts, short(took), last, m.bound).took(took)
}

// nodePart is something on a node that comes back, and when it was first seen to be there
// since a time; endless for never.
type nodePart struct {
	name  string
	since func(record.Nanos) record.Nanos
}

// partsOf returns all of a node that the record can tell of.
func (m *matter) partsOf(node string) (parts []nodePart) {
	var components []string
	for _, n := range nodeLives(m.run) {
		if n.Name == node {
			components = n.Components
		}
	}
	for _, component := range components {
		parts = append(parts, nodePart{component + " on " + node, func(from record.Nanos) record.Nanos {
			return firstAt(m.run.Processes, from, func(p record.ProcessState) bool {
				return p.Node == node && p.Component == component && p.Error == "" && (p.PID > 0 || p.Standby)
			})
		}})
	}
	if slices.Contains(components, "etcd") {
		parts = append(parts, nodePart{"the etcd member on " + node, func(from record.Nanos) record.Nanos {
			return firstAt(m.run.Etcd, from, func(s record.EtcdStatus) bool { return s.Node == node && s.OK && s.Leader != "" })
		}})
	}
	if slices.Contains(m.run.Meta.Entrances, node) {
		parts = append(parts, nodePart{fmt.Sprintf("the API server on %s", node), func(from record.Nanos) record.Nanos {
			return firstAt(m.run.Probes, from, func(p record.Probe) bool {
				return p.Entrance == node && p.OK && p.Kind == record.ProbeQuorumRead && p.Start >= from
			})
		}})
	}
	return parts
}

// firstAt is when the first of a list's entries from a time on is as it should be; endless
// for none.
func firstAt[T any](list []record.Timed[T], from record.Nanos, holds func(T) bool) record.Nanos {
	first := endless
	for _, e := range list {
		if e.At >= from && holds(e.V) {
			first = min(first, e.At)
		}
	}
	return first
}
