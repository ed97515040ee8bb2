package judge

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func watchAlive() definition {
	const must = "A watch must not fall silent"
	return definition{Doc{
		Name:      "watch-alive",
		Invariant: "HA-INV-007",
		Guarantee: "When the traffic has ended and nothing is broken any more, a watch that is open shows the last change of what it watches within 5 s. " +
			"Until then silence is no fault of it: the API gives no time.",
		Source: sourceAPI + "; field (etcd issue 15402: watches starve)",
	}, func(m *matter) finding {
		from, to := record.Nanos(0), record.Nanos(0)
		f := m.watches(must, "watch that was open at the end", open, func(s *stream) []breach {
			b, since := s.silent()
			if b == nil {
				return nil
			}
			if from == 0 || since < from {
				from = since
			}
			to = max(to, s.ended.Seen)
			return []breach{*b}
		})
		unsteady := slices.ContainsFunc(m.run.Steadies, func(s record.Timed[record.Steady]) bool { return s.V.Phase == "after" && !s.V.OK })
		switch {
		case f.verdict != NotApplicable && unsteady:
			return inconclusive("the cluster was not in its steady state when the traffic ended, so watches may be silent")
		case f.verdict == Fail:
			f = f.rests(from, to)
		}
		return f
	}}
}

// open tells whether the client waited for the last writes with the watch.
func open(s *stream) bool { return s.ended != nil && s.ended.Purpose == purposeFinalRead }

// silent returns what a watch did not show though its client waited for it, and since
// when; nil for none.
func (s *stream) silent() (*breach, record.Nanos) {
	all := s.timeline.expected(s.scope())
	if len(all) == 0 {
		return nil, 0
	}
	last := all[len(all)-1]
	if last.by == nil || last.by.op.Outcome != record.OK || last.revision <= s.from() {
		return nil, 0
	}
	for _, m := range s.messages {
		if m.version >= last.revision {
			return nil, 0
		}
	}
	since := max(s.watch.Seen, last.by.op.Return)
	waited := span(since, s.ended.Seen)
	if waited <= silenceLimit {
		return nil, 0
	}
	b := breach{
		at: s.ended.Seen,
		what: fmt.Sprintf("%s did not show %s, though it was open and waited for during %s, more than %s",
			s.name(), last.describe(), short(waited), short(silenceLimit)),
		evidence: last.evidence(),
		spans: append(spanOfWrite(last.by), s.opening(),
			Span{Lane: s.lane(), Label: "silence", From: since, To: s.ended.Seen, Culprit: true}),
	}
	if n := len(s.messages); n > 0 {
		b.evidence = append(s.lines(n-1), b.evidence...)
	}
	return &b, since
}
