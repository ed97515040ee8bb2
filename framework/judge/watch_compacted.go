package judge

import "fmt"

func watchCompacted() definition {
	return definition{Doc{
		Name:      "watch-compacted",
		Invariant: "HA-INV-006",
		Lasting:   true,
		Guarantee: "A watch from a version that is no longer in the history is refused with 410 (etcd: compacted); one that is accepted has no gap.",
		Source:    "Kubernetes API concepts (410 Gone responses); etcd API, compaction",
	}, judgeWatchCompacted}
}

func judgeWatchCompacted(m *matter) finding {
	const must = "A watch from a version that is no longer in the history must be refused with 410, or have no gap"
	c := m.collections()
	var breaches []breach
	refused, accepted := 0, 0
	for _, s := range c.streams {
		if s.ended != nil && (s.ended.Status == 410 || s.ended.Compacted != "") {
			refused++
			if len(s.messages) == 0 {
				continue // etcd accepts it before it says so
			}
		}
		if !s.opened || s.from() == 0 || !c.forgot(s) {
			continue
		}
		if c.lost(s) {
			accepted++
		}
		if g := s.findGap(); g != nil && g.proof == 0 {
			breaches = append(breaches, s.gapBreach(g, s.goesOn()))
		}
	}
	if refused+accepted == 0 && len(breaches) == 0 {
		return notApplicable("nobody watched from a version that was no longer in the history")
	}
	of := fmt.Sprintf("%d refused, %d accepted", refused, accepted)
	return conclude(must, fmt.Sprintf("Of the watches from versions that were no longer in etcd's history, %d were refused with 410, and %d were accepted and had no gap.",
		refused, accepted), of, breaches)
}

// forgot tells whether there is reason to think that the history before a watch's
// version was gone when it was opened: somebody had been told so, or etcd had been made
// to forget.
func (c *collections) forgot(s *stream) bool {
	return len(c.compacted) > 0 && c.compacted[0].at < s.watch.Called || c.goneBefore(s.watch.Called, number(s.watch.From))
}

// lost tells whether the history before a watch's version was gone for sure when it
// was opened: somebody had been told so, or etcd had been made to forget more than
// that.
func (c *collections) lost(s *stream) bool {
	if c.goneBefore(s.watch.Called, number(s.watch.From)) {
		return true
	}
	for _, lost := range c.compacted {
		if lost.at < s.watch.Called && s.from()+1 < lost.revision {
			return true
		}
	}
	return false
}
