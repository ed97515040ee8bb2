package facts

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	// QuietPeriod is how long before the fault no probe may have failed.
	QuietPeriod = 3 * time.Second
	// EnoughProbes is how many probes of each kind are enough for a measurement.
	EnoughProbes = 3
)

// DefaultKinds leaves out watches: a server that exits closes its watches, and reopening them
// takes time.
const DefaultKinds = "read,quorum-read,write"

func DescribeProbe(p record.Probe) string {
	s := ProbeKind{p.Kind, p.Reused}.String()
	if p.Client != "" {
		s = p.Client + ", " + s
	}
	s += ", " + text.When(p.Start) + " to " + text.When(p.End)
	if p.OK {
		return s + ": ok"
	}
	return s + ": " + cmp.Or(p.Error, "failed")
}

// LongestHole returns the longest time between from and to in which no probe was in flight.
// Probes are in the order of their starts.
func LongestHole(probes []record.Probe, from, to record.Nanos) (hole time.Duration, begin record.Nanos) {
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

// MissingProbes names the kinds with too few probes; empty if there are none.
func MissingProbes(probes []record.Probe, kinds []ProbeKind, from record.Nanos) string {
	count := map[ProbeKind]int{}
	for _, p := range probes {
		if p.Start >= from {
			count[ProbeKind{p.Kind, p.Reused}]++
		}
	}
	var missing []string
	for _, k := range kinds {
		if count[k] < EnoughProbes {
			missing = append(missing, k.String())
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return text.And(missing)
}

// ProbeKind is one of the ways to probe.
type ProbeKind struct {
	Kind   record.ProbeKind
	Reused bool
}

func (k ProbeKind) String() string {
	s := strings.ReplaceAll(string(k.Kind), "-", " ")
	if k.Reused {
		return s + " on a persistent connection"
	}
	return s + " on a new connection"
}

// OverloadSince is the time from which an overload may have caused the last error: a bound before
// the first of a series of errors that follow each other within the bound. Probes are in the
// order of their starts.
func OverloadSince(probes []record.Probe, last record.Probe, bound time.Duration) record.Nanos {
	begin := last.Start
	for _, p := range slices.Backward(probes) {
		if !p.OK && p.End >= begin-record.Nanos(bound) {
			begin = min(begin, p.Start)
		}
	}
	return begin - record.Nanos(bound)
}

// Unasked names the first kind without a probe in flight for longer than limit between from and
// to, and says when; it is empty if there is none. Probes of one kind say nothing about another:
// a kept connection may hang while new ones do not.
func Unasked(probes []record.Probe, kinds []ProbeKind, from, to record.Nanos, limit time.Duration) string {
	for _, k := range kinds {
		own := slices.DeleteFunc(slices.Clone(probes), func(p record.Probe) bool { return ProbeKind{p.Kind, p.Reused} != k })
		if hole, begin := LongestHole(own, from, to); hole > limit {
			return k.String() + " was tried for " + text.Short(hole) + " (" + text.When(begin) + " to " + text.When(begin+record.Nanos(hole)) + ")"
		}
	}
	return ""
}

// LongestSilence is how long a kind may have no probe in flight: the rarest kinds are made every
// 1.5 s.
const LongestSilence = 5 * time.Second

func ByStart(a, b record.Probe) int { return cmp.Compare(a.Start, b.Start) }
