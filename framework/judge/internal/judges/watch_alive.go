package judges

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func watchAlive() Definition {
	const must = "A watch must not fall silent"
	return Definition{verdict.Doc{
		Name:      "watch-alive",
		Invariant: "HA-INV-007",
		Guarantee: "When the traffic has ended and nothing is broken any more, a watch that is open shows the last change of what it watches within 5 s. " +
			"Until then silence is not its fault: the API gives no time.",
		Source: sourceAPI + "; field (etcd issue 15402: watches starve)",
	}, func(m *facts.Matter) Finding {
		from, to := record.Nanos(0), record.Nanos(0)
		f := watches(m, must, "watch that was open at the end", open, func(s *facts.Stream) []facts.Breach {
			b, since := silent(s)
			if b == nil {
				return nil
			}
			if from == 0 || since < from {
				from = since
			}
			to = max(to, s.Ended.Seen)
			return []facts.Breach{*b}
		})
		unsteady := slices.ContainsFunc(m.Run.Steadies, func(s record.Timed[record.Steady]) bool { return s.V.Phase == "after" && !s.V.OK })
		switch {
		case f.Verdict != verdict.NotApplicable && unsteady:
			return Inconclusive("the cluster was not in its steady state when the traffic ended, so watches may be silent")
		case f.Verdict == verdict.Fail:
			f = f.Rests(from, to)
		}
		return f
	}}
}

// open reports whether the client waited for the last writes with the watch.
func open(s *facts.Stream) bool { return s.Ended != nil && s.Ended.Purpose == facts.PurposeFinalRead }

// silent returns what a watch did not show though its client waited for it, and since
// when; nil for none.
func silent(s *facts.Stream) (*facts.Breach, record.Nanos) {
	all := s.Timeline.Expected(s.Scope())
	if len(all) == 0 {
		return nil, 0
	}
	last := all[len(all)-1]
	if last.By == nil || last.By.Op.Outcome != record.OK || last.Revision <= s.From() {
		return nil, 0
	}
	for _, m := range s.Messages {
		if m.Number >= last.Revision {
			return nil, 0
		}
	}
	since := max(s.Watch.Seen, last.By.Op.Return)
	waited := text.Span(since, s.Ended.Seen)
	if waited <= facts.SilenceLimit {
		return nil, 0
	}
	b := facts.Breach{
		At: s.Ended.Seen,
		What: fmt.Sprintf("%s did not show %s, though it was open and waited for during %s, more than %s",
			s.Name(), last.Describe(), text.Short(waited), text.Short(facts.SilenceLimit)),
		Evidence: last.Evidence(),
		Spans: append(facts.SpanOfWrite(last.By), s.Opening(),
			verdict.Span{Lane: s.Lane(), Label: "silence", From: since, To: s.Ended.Seen, Culprit: true}),
	}
	if n := len(s.Messages); n > 0 {
		b.Evidence = append(s.Lines(n-1), b.Evidence...)
	}
	return &b, since
}
