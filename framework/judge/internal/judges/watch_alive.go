package judges

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var watchAlive = Definition{Doc{
	Name:      "watch-alive",
	Invariant: "HA-INV-007",
	Guarantee: "When the traffic has ended and nothing is broken any more, a client that watches is shown the last change of what it watches within 5 s, by the watch that is open or by those that continue it. " +
		"Until then silence is not a violation: the API promises no latency.",
	Source: sourceAPI + "; field (etcd issue 15402: watches starve)",
}, judgeWatchAlive}

func judgeWatchAlive(m *facts.Case) Finding {
	from, to := record.Nanos(0), record.Nanos(0)
	all := vigils(m.Collections().Streams)
	atTheEnd := func(s *facts.Stream) bool { return all[s.Watch.ID].atTheEnd() }
	f := watches("A watch must not fall silent", "watch that was open at the end", atTheEnd, func(s *facts.Stream) []facts.Breach {
		b, since := all[s.Watch.ID].silent()
		if b == nil {
			return nil
		}
		if from == 0 || since < from {
			from = since
		}
		to = max(to, s.Ended.Seen)
		return []facts.Breach{*b}
	})(m)
	unsteady := slices.ContainsFunc(m.Run.Steadies, func(s record.Timed[record.Steady]) bool { return s.V.Phase == "after" && !s.V.OK })
	switch {
	case f.Verdict != verdict.NotApplicable && unsteady:
		return Inconclusive("the cluster was not in its steady state when the traffic ended, so watches may be silent")
	case f.Verdict == verdict.Fail:
		f = f.Rests(from, to)
	}
	return f
}

// vigil is what one client watched without a break: one watch, or several of the same scope, each
// opened right after the one before it had ended. A client whose watches all end immediately is
// shown as little as one whose only watch is silent.
type vigil []*facts.Stream

// resumeLimit is how long after a watch its client may have opened the next one for both to belong
// to one vigil. Clients pause for 0.1 s.
const resumeLimit = time.Second

// vigils returns the vigils of every client, each by the ID of its last watch. An attempt to open a watch
// that was refused ends a vigil: the client was not watching then.
func vigils(streams []*facts.Stream) map[string]vigil {
	type watching struct {
		client, api, collection string
		facts.Scope
	}
	all, latest := map[string]vigil{}, map[watching]vigil{}
	for _, s := range streams {
		of := watching{s.Watch.Client, s.Watch.API, s.Watch.Collection, s.Scope()}
		switch v := latest[of]; {
		case !s.Opened:
			delete(latest, of)
		case v.continues(s):
			delete(all, v.last().Watch.ID)
			latest[of] = append(v, s)
			all[s.Watch.ID] = latest[of]
		default:
			latest[of] = vigil{s}
			all[s.Watch.ID] = latest[of]
		}
	}
	return all
}

func (v vigil) last() *facts.Stream { return v[len(v)-1] }

// continues reports whether a watch was opened right after the last one had ended.
func (v vigil) continues(s *facts.Stream) bool {
	if len(v) == 0 || v.last().Ended == nil {
		return false
	}
	ended := v.last().Ended.Seen
	return ended <= s.Watch.Called && s.Watch.Called-ended <= record.Nanos(resumeLimit)
}

// atTheEnd reports whether the client waited for the last writes of the run: by the purpose of its
// last watch, or since it watched after one of them.
func (v vigil) atTheEnd() bool {
	if len(v) == 0 || v.last().Ended == nil {
		return false
	}
	ended := v.last().Ended
	if ended.Purpose == facts.PurposeFinalRead {
		return true
	}
	change := v.lastChange()
	return change != nil && change.By.Op.Purpose == facts.PurposeFinalWrite && change.By.Op.Return < ended.Seen
}

// lastChange returns the last change of what the client watched that was acknowledged, nil if it
// is not known. What was written after the vigil does not count.
func (v vigil) lastChange() *facts.Expectation {
	end := v.last().Ended.Seen
	all := v[0].Timeline.Expected(v[0].Scope())
	for i := len(all) - 1; i >= 0; i-- {
		switch by := all[i].By; {
		case by != nil && by.Op.Call >= end:
		case by == nil || by.Op.Outcome != record.OK:
			return nil
		default:
			return &all[i]
		}
	}
	return nil
}

// silent returns what a vigil did not show though its client waited for it, and since when; nil
// for none.
func (v vigil) silent() (*facts.Breach, record.Nanos) {
	last := v.lastChange()
	if last == nil || slices.ContainsFunc(v, func(s *facts.Stream) bool { return knows(s, last) }) {
		return nil, 0
	}
	s := v.last()
	since := max(v[0].Watch.Seen, last.By.Op.Return)
	waited := text.Span(since, s.Ended.Seen)
	if waited <= facts.SilenceLimit {
		return nil, 0
	}
	what := "though it was open and waited for"
	if n := len(v) - 1; n > 0 {
		what = fmt.Sprintf("nor did the watches that it continued (%d), though the client waited for it", n)
	}
	b := facts.Breach{
		At: s.Ended.Seen,
		What: fmt.Sprintf("%s did not show %s, %s during %s, more than %s",
			s.Name(), last.Describe(), what, text.Short(waited), text.Short(facts.SilenceLimit)),
		Evidence: last.Evidence(),
		Spans: append(facts.SpanOfWrite(last.By), v[0].Opening(),
			verdict.Span{Lane: s.Lane(), Label: "silence", From: since, To: s.Ended.Seen, Culprit: true}),
	}
	for _, w := range slices.Backward(v) {
		if n := len(w.Messages); n > 0 {
			b.Evidence = append(w.Lines(n-1), b.Evidence...)
			break
		}
	}
	return &b, since
}

// knows reports whether a watch showed a change, or did not have to: its client had requested a
// later version, or the watch started after the change with a state that does not show it, namely
// with that after a deletion or, in etcd, with the next change.
func knows(s *facts.Stream, c *facts.Expectation) bool {
	if c.Revision <= s.From() {
		return true
	}
	if s.Watch.Seen > c.By.Op.Call {
		next := s.Watch.API == facts.APIEtcd && record.Number(s.Watch.From) == 0
		if next || s.WithState() && c.Type == record.EventDeleted {
			return true
		}
	}
	return slices.ContainsFunc(s.Messages, func(m facts.Message) bool { return m.Number >= c.Revision })
}
