package judges

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var watchPrevious = Definition{Doc{
	Name:      "watch-previous",
	Invariant: "HA-INV-007",
	Lasting:   true,
	Guarantee: "If a watch of etcd asks for the previous key-value pair, an event has the one right before its change, or none if the key did not exist. " +
		"A missing pair proves nothing: etcd leaves it out once it is compacted.",
	Source: "etcd API, watch (prev_kv)",
}, watches("etcd must show the pair as it was before the change", "watch of etcd that showed what was there before", facts.ShowsPrevious, func(s *facts.Stream) []facts.Breach {
	var breaches []facts.Breach
	for i, m := range s.Messages {
		if what, before := wrongPrevious(s, m); what != "" {
			breaches = append(breaches, s.BreachAt(i, fmt.Sprintf("%s showed %q %s, %s", s.Name(), m, text.At(m.Seen), what), s.ChangeOf(m), before))
		}
	}
	return breaches
})}

func wrongPrevious(s *facts.Stream, m facts.Message) (what string, before *facts.KeyChange) {
	revision := record.Number(m.PreviousRevision)
	if m.Bookmark() || revision == 0 {
		return "", nil
	}
	shown := fmt.Sprintf("and before it %q of version %s", m.PreviousValue, m.PreviousRevision)
	if problem := s.Timeline.Stranger(m.Key, m.PreviousValue, revision); problem != "" {
		return shown + ", " + problem, nil
	}
	e, _, known := s.Shown(m)
	if !known {
		return "", nil
	}
	i, ok := e.Line.Find(e.Revision)
	if !ok || !e.Line.Sure(i) {
		return "", nil
	}
	switch before = e.Line.Before(i); {
	case before == nil:
		return shown + ", but the key did not exist", nil
	case before.Revision != revision || before.Value != m.PreviousValue:
		return shown + ", instead of " + before.Describe(), before
	}
	return "", nil
}
