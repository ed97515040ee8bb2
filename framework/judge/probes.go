package judge

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	// calm is how long before the fault no probe may have failed.
	calm = 3 * time.Second
	// enoughProbes is how many probes of each kind make a measurement.
	enoughProbes = 3
)

// defaultKinds leaves out watches: a server that ends takes its watches along, and
// to open them anew takes its time.
const defaultKinds = "read,quorum-read,write"

func describeProbe(p record.Probe) string {
	s := probeKind{p.Kind, p.Reused}.String()
	if p.Client != "" {
		s = p.Client + ", " + s
	}
	s += ", " + when(p.Start) + " to " + when(p.End)
	switch {
	case p.OK:
		return s + ": ok"
	case p.Error != "":
		return s + ": " + p.Error
	}
	return s + ": failed"
}

// longestHole returns the longest time between from and to in which no probe
// was under way. Probes are in the order of their starts.
func longestHole(probes []record.Probe, from, to record.Nanos) (hole time.Duration, begin record.Nanos) {
	covered := from
	look := func(next record.Nanos) {
		if d := time.Duration(min(next, to) - covered); d > hole {
			hole, begin = d, covered
		}
	}
	for _, p := range probes {
		look(p.Start)
		covered = max(covered, p.End)
	}
	look(to)
	return hole, begin
}

// missingProbes names the kinds of which there are too few, or is empty.
func missingProbes(probes []record.Probe, kinds []record.ProbeKind, from record.Nanos) string {
	count := map[probeKind]int{}
	for _, p := range probes {
		if p.Start >= from {
			count[probeKind{p.Kind, p.Reused}]++
		}
	}
	var missing []string
	for _, reused := range []bool{false, true} {
		for _, kind := range kinds {
			if k := (probeKind{kind, reused}); count[k] < enoughProbes {
				missing = append(missing, k.String())
			}
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return and(missing)
}

// probeKind is one of the ways to probe.
type probeKind struct {
	kind   record.ProbeKind
	reused bool
}

func (k probeKind) String() string {
	s := strings.ReplaceAll(string(k.kind), "-", " ")
	if k.reused {
		return s + " on a kept connection"
	}
	return s + " on a new connection"
}

// spell is from when on an overload may have caused the last error: from a bound before
// the first of the errors that follow on each other within the bound. Probes are in the
// order of their starts.
func spell(probes []record.Probe, last record.Probe, bound time.Duration) record.Nanos {
	begin := last.Start
	for _, p := range slices.Backward(probes) {
		if !p.OK && p.End >= begin-record.Nanos(bound) {
			begin = min(begin, p.Start)
		}
	}
	return begin - record.Nanos(bound)
}

// unasked names the first kind of which no probe was under way for longer than limit
// between from and to, and says when; it is empty where there is none. Probes of one kind
// tell nothing of another: a connection that is kept may hang while new ones do not.
func unasked(probes []record.Probe, kinds []record.ProbeKind, from, to record.Nanos, limit time.Duration) string {
	for _, reused := range []bool{false, true} {
		for _, kind := range kinds {
			k := probeKind{kind, reused}
			own := slices.DeleteFunc(slices.Clone(probes), func(p record.Probe) bool { return probeKind{p.Kind, p.Reused} != k })
			if hole, begin := longestHole(own, from, to); hole > limit {
				return k.String() + " was tried for " + short(hole) + " (" + when(begin) + " to " + when(begin+record.Nanos(hole)) + ")"
			}
		}
	}
	return ""
}

// longestSilence is for how long no probe of one kind need be under way: the rarest
// kinds are made every 1.5 s.
const longestSilence = 5 * time.Second

func byStart(a, b record.Probe) int { return cmp.Compare(a.Start, b.Start) }
