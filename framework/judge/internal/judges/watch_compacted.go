package judges

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var watchCompacted = Definition{Doc{
	Name:      "watch-compacted",
	Invariant: "HA-INV-006",
	Lasting:   true,
	Guarantee: "A watch from a version that is no longer in the history is refused with 410 (etcd: compacted); one that is accepted has no gap.",
	Source:    "Kubernetes API concepts (410 Gone responses); etcd API, compaction",
}, judgeWatchCompacted}

func judgeWatchCompacted(m *facts.Case) Finding {
	const must = "A watch from a version that is no longer in the history must be refused with 410, or have no gap"
	c := m.Collections()
	var breaches []facts.Breach
	refused, accepted := 0, 0
	mute := 0 // accepted watches that had something to show, and showed nothing
	for _, s := range c.Streams {
		if s.Ended != nil && (s.Ended.Status == 410 || s.Ended.Compacted != "") {
			refused++
			if len(s.Messages) == 0 {
				continue // etcd accepts it before it reports that
			}
		}
		if !s.Opened || s.From() == 0 {
			continue
		}
		maybe, sure := forgotten(c, s)
		if sure {
			accepted++
			if newest := s.Timeline.NewestBefore(s.Watch.Called); len(s.Messages) == 0 && newest != nil && len(s.Timeline.Between(s.Scope(), s.From(), newest.Revision)) > 0 {
				mute++
			}
		}
		if maybe {
			breaches = append(breaches, s.LeftOutFirst()...)
		}
	}
	if refused+accepted == 0 && len(breaches) == 0 {
		return notApplicable("No client watched from a version that was no longer in the history.")
	}
	if m.Fault != nil && refused == 0 && accepted > 0 && mute == accepted && len(breaches) == 0 {
		return Inconclusive("each watch from a version that was no longer in the history was accepted (%d), and showed nothing of what had changed since, so whether it has a gap is not known", accepted)
	}
	of := fmt.Sprintf("%d refused, %d accepted", refused, accepted)
	return conclude(must, fmt.Sprintf("Of the watches from versions that were no longer in etcd's history, %d %s refused with 410, and %d %s accepted and had no gap.",
		refused, text.Was(refused), accepted, text.Was(accepted)), of, breaches)
}

// forgotten reports whether the history before a watch's version may have been gone when it was
// opened, and whether it certainly was: a client had received that error, or etcd had been
// compacted, certainly beyond that version.
func forgotten(c *facts.Collections, s *facts.Stream) (maybe, sure bool) {
	if c.GoneBefore(s.Watch.Called, record.Number(s.Watch.From)) {
		return true, true
	}
	for _, b := range c.Compacted {
		if b.At < s.Watch.Called {
			maybe, sure = true, sure || s.From()+1 < b.Revision
		}
	}
	return maybe, sure
}
