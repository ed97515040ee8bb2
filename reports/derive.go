package reports

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func endOf(run *record.Run) record.Nanos {
	end := run.EndAt
	for _, p := range run.Probes {
		end = max(end, p.V.End)
	}
	for _, f := range run.Faults {
		end = max(end, f.At, f.V.Effect)
	}
	for _, p := range run.Phases {
		end = max(end, p.At)
	}
	return end
}

// injection is the life of one fault.
type injection struct {
	id, name, node, component, target string
	injected, healed, failed          *record.Fault
}

func injectionsOf(run *record.Run) []*injection {
	var list []*injection
	byID := map[string]*injection{}
	for i := range run.Faults {
		f := &run.Faults[i].V
		in := byID[f.ID]
		if in == nil {
			in = &injection{id: f.ID, name: f.Name, node: f.Node, component: f.Component, target: f.Target}
			byID[f.ID] = in
			list = append(list, in)
		}
		switch f.Phase {
		case record.FaultInjected:
			in.injected = f
		case record.FaultHealed:
			in.healed = f
		case record.FaultFailed:
			in.failed = f
		}
	}
	return list
}

// what describes the fault: "kill kube-apiserver on node-2".
func (in *injection) what() string {
	text := in.name
	if in.component != "" {
		text += " " + in.component
	}
	if in.node != "" {
		return text + " on " + in.node
	}
	if in.component == "" && in.target != "" {
		text += " " + in.target
	}
	return text
}

func (in *injection) proven() bool { return in.injected != nil && in.injected.Proven }

func (in *injection) latency() record.Nanos { return in.injected.Effect - in.injected.Called }

// began returns when the fault took effect or, without a proof, when it was called for.
func (in *injection) began() record.Nanos {
	first := cmp.Or(in.injected, in.failed, in.healed)
	if first.Proven && first.Effect > 0 {
		return first.Effect
	}
	return first.Called
}

// ended returns when the fault was healed; ok is false if it was not.
func (in *injection) ended() (at record.Nanos, ok bool) {
	if in.healed == nil {
		return 0, false
	}
	return cmp.Or(in.healed.Effect, in.healed.Called), true
}

// probeSeries are the probes of one kind through one entrance, by start.
type probeSeries struct {
	entrance string
	reused   bool
	kind     record.ProbeKind
	probes   []record.Probe
	failed   int
}

func (s *probeSeries) connection() string {
	if s.reused {
		return "reused"
	}
	return "new"
}

// probeSeriesOf returns the series in the order of the entrances, each in that of
// record.ProbeKinds and with new before reused connections.
func probeSeriesOf(run *record.Run) []*probeSeries {
	type key struct {
		entrance string
		reused   bool
		kind     record.ProbeKind
	}
	byKey := map[key]*probeSeries{}
	var list []*probeSeries
	for _, p := range run.Probes {
		k := key{p.V.Entrance, p.V.Reused, p.V.Kind}
		s := byKey[k]
		if s == nil {
			s = &probeSeries{entrance: k.entrance, reused: k.reused, kind: k.kind}
			byKey[k] = s
			list = append(list, s)
		}
		s.probes = append(s.probes, p.V)
		if !p.V.OK {
			s.failed++
		}
	}
	kinds := record.ProbeKinds()
	position := func(entrance string) int {
		if i := slices.Index(run.Meta.Entrances, entrance); i >= 0 {
			return i
		}
		return len(run.Meta.Entrances)
	}
	slices.SortFunc(list, func(a, b *probeSeries) int {
		return cmp.Or(
			cmp.Compare(position(a.entrance), position(b.entrance)),
			cmp.Compare(a.entrance, b.entrance),
			cmp.Compare(slices.Index(kinds, a.kind), slices.Index(kinds, b.kind)),
			cmp.Compare(oneIf(a.reused), oneIf(b.reused)),
		)
	})
	for _, s := range list {
		slices.SortStableFunc(s.probes, func(a, b record.Probe) int { return cmp.Compare(a.Start, b.Start) })
	}
	return list
}

// outage is a period in which no probe of a series succeeded.
type outage struct {
	from, to record.Nanos
	probes   int
	reason   string // of the first failure
}

// outages returns the runs of failed probes: from the start of the first to the
// end of the last one before the next success.
func (s *probeSeries) outages() []outage {
	var list []outage
	down := false
	for _, p := range s.probes {
		switch {
		case p.OK:
			down = false
		case down:
			last := &list[len(list)-1]
			last.to = max(last.to, p.End)
			last.probes++
		default:
			down = true
			reason := p.Error
			if reason == "" && p.Status != 0 {
				reason = "HTTP " + number(float64(p.Status), 0)
			}
			list = append(list, outage{p.Start, max(p.Start, p.End), 1, reason})
		}
	}
	return list
}

func (s *probeSeries) longest() time.Duration {
	var longest time.Duration
	for _, o := range s.outages() {
		longest = max(longest, time.Duration(o.to-o.from))
	}
	return longest
}

func (s *probeSeries) unavailable() (all time.Duration) {
	for _, o := range s.outages() {
		all += time.Duration(o.to - o.from)
	}
	return all
}

// typicalGap returns the median time between observations, 0 for fewer than two. An observer that
// has been silent for much longer does not know the current state.
func typicalGap(times []record.Nanos) record.Nanos {
	if len(times) < 2 {
		return 0
	}
	gaps := make([]record.Nanos, 0, len(times)-1)
	for i := 1; i < len(times); i++ {
		gaps = append(gaps, times[i]-times[i-1])
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2]
}

// nodeIndex returns the position of a node, which determines its colour; -1 for an unknown one.
func nodeIndex(run *record.Run, name string) int {
	return slices.IndexFunc(run.Meta.Nodes, func(n record.Node) bool { return n.Name == name })
}
