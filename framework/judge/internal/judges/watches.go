package judges

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	sourceAPI  = "Kubernetes API concepts (efficient detection of changes)"
	sourceEtcd = "etcd API guarantees, watch APIs"
)

// watches returns a judge of single watches, for those that it applies to. must is the
// guarantee; what describes the applicable watches, for a record without any.
func watches(must, what string, applies func(*facts.Stream) bool, inspect func(*facts.Stream) []facts.Breach) func(*facts.Case) Finding {
	return func(m *facts.Case) Finding {
		var breaches []facts.Breach
		watches, messages, after := 0, 0, 0
		for _, s := range m.Collections().Streams {
			if !s.Opened || !applies(s) {
				continue
			}
			watches++
			messages += len(s.Messages)
			for _, e := range s.Messages {
				if m.Meets(e.Seen) {
					after++
				}
			}
			breaches = append(breaches, inspect(s)...)
		}
		if watches == 0 {
			return notApplicable("The record has no %s.", what)
		}
		of := fmt.Sprintf("%d watches, %d messages", watches, messages)
		return exposed(m, conclude(must, "", of, breaches), after, enoughExposed, "message")
	}
}

// enoughExposed is how many messages, or operations, must have met the fault that a check is
// about. A check may require more operations.
const enoughExposed = 10

// exposed takes the pass from a check about a fault that fewer than least came after.
func exposed(m *facts.Case, f Finding, n, least int, what string) Finding {
	if f.Verdict != verdict.Pass || m.Fault == nil || n >= least {
		return f
	}
	until := ""
	if m.Lasts() {
		until = " and before it was healed"
	}
	return Inconclusive("%s came after the %s took effect%s, fewer than the %d required for a verdict", text.Plural(n, what), m.Fault.What(), until, least)
}

// encounters are operations that met a fault: how many were answered, and how many quorum reads
// and writes were attempted.
type encounters struct{ answered, reads, writes int }

func (e *encounters) add(op record.Op) {
	if op.Outcome == record.OK {
		e.answered++
	}
	switch {
	case op.Unsent:
	case facts.IsWrite(op.Type):
		e.writes++
	default:
		e.reads++
	}
}

// few says of what there were fewer than least; empty if there were enough.
func (e encounters) few(least int) string {
	for _, of := range []struct {
		n    int
		what string
	}{{e.answered, "answered operation"}, {e.reads, "attempted quorum read"}, {e.writes, "attempted write"}} {
		if of.n < least {
			return text.Plural(of.n, of.what)
		}
	}
	return ""
}

// met takes the pass from a check about a fault that fewer than least operations met: while it
// lasted, and through each API server that it left alone. A pass says how many were attempted
// through each entrance.
func met(m *facts.Case, f Finding, by map[string]*encounters, least int) Finding {
	if f.Verdict != verdict.Pass || m.Fault == nil {
		return f
	}
	total := encounters{}
	for _, e := range by {
		total.answered, total.reads, total.writes = total.answered+e.answered, total.reads+e.reads, total.writes+e.writes
	}
	if !m.Lasts() {
		if f = exposed(m, f, total.answered, least, "answered operation"); f.Verdict == verdict.Pass {
			f.Sentence += fmt.Sprintf(" After the %s took effect, clients attempted %s.", m.Fault.What(), attempted(by))
		}
		return f
	}
	short, through := total.few(least), ""
	for _, server := range m.APIServers(m.HitBetween(m.Fault.Effect(), m.Fault.Healed.Called)...) {
		if short == "" {
			short, through = cmp.Or(by[server], &encounters{}).few(least), " through "+server
		}
	}
	if short == "" {
		f.Sentence += fmt.Sprintf(" While the %s lasted, clients attempted %s.", m.Fault.What(), attempted(by))
		return f
	}
	return Inconclusive("%s came%s while the %s lasted (%s to %s), fewer than the %d required for a verdict",
		short, through, m.Fault.What(), text.When(m.Fault.Effect()), text.When(m.Fault.Healed.Called), least)
}

func attempted(by map[string]*encounters) string {
	var all []string
	for _, entrance := range slices.Sorted(maps.Keys(by)) {
		all = append(all, fmt.Sprintf("%s and %s through %s", text.Plural(by[entrance].writes, "write"), text.Plural(by[entrance].reads, "quorum read"), entrance))
	}
	return text.And(all)
}

// hasMessages reports whether the watch showed anything: without that, nothing can be said of
// what it left out.
func hasMessages(s *facts.Stream) bool { return len(s.Messages) > 0 }

func hasEvents(s *facts.Stream) bool { return len(s.Index) > 0 }

func etcdEvents(s *facts.Stream) bool { return s.Watch.API == facts.APIEtcd && hasEvents(s) }

// conclude makes a finding from the results of a judge of lists or watches. must is the
// guarantee, pass the sentence if it holds, where there is more to say than that, and of what was
// judged.
func conclude(must, pass, of string, breaches []facts.Breach) Finding {
	if len(breaches) == 0 {
		pass = cmp.Or(pass, fmt.Sprintf("%s: this was checked for %s, without a violation.", must, of))
		return Passed("%s", pass).counted("%s", of)
	}
	slices.SortStableFunc(breaches, func(a, b facts.Breach) int { return cmp.Compare(a.At, b.At) })
	first := breaches[0]
	f := Failed("%s: %s.", must, first.What).counted("%d breaches, %s", len(breaches), of).Shows(first.Evidence...)
	for _, b := range breaches[1:] {
		f = f.Shows("also: " + b.What)
	}
	f.Exhibit = facts.ExhibitOf(first.What, first.Spans)
	return f
}
