package judge

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// changeOf returns the change that a message tells of, nil where it is not known.
func (s *stream) changeOf(m message) *keyChange {
	e, _, known := s.shown(m)
	if !known {
		return nil
	}
	return e.keyChange
}

// beforeOf returns what the key was before a change, nil for absent.
func (s *stream) beforeOf(e expectation) *keyChange {
	i, ok := e.line.find(e.revision)
	if !ok {
		return nil
	}
	return e.line.before(i)
}

// showsPrevious tells whether a watch of etcd asked for what was there before.
func showsPrevious(s *stream) bool {
	if !s.watch.Previous || s.watch.API != apiEtcd {
		return false
	}
	for _, m := range s.messages {
		if m.PreviousRevision != "" || m.Type == record.EventAdded {
			return true
		}
	}
	return false
}

// staleBegin finds a streaming list that is older than what was asked for: the newest
// state where no version was.
func (s *stream) staleBegin() []breach {
	if s.base == 0 || s.begin == 0 {
		return nil // etcd has no streaming lists
	}
	i := s.begin - 1
	if from := number(s.watch.From); s.base < from {
		return []breach{s.breachAt(i, fmt.Sprintf("%s, from version %s, began with the state of version %d", s.name(), s.watch.From, s.base))}
	}
	if s.watch.From != "" {
		return nil
	}
	for _, item := range s.state(s.begin) {
		if d := s.timeline.removed(item, s.watch.Called); d != nil {
			b := s.breachAt(i, fmt.Sprintf("%s, called %s, began with %s = %q, the deletion of which had been acknowledged to %s %s",
				s.name(), at(s.watch.Called), item.Key, item.Value, d.Client, at(d.Return)))
			b.evidence = append(b.evidence, describe(*d))
			b.spans = append(append(b.spans, spanOfWrite(&write{op: d})...), s.opening())
			return []breach{b}
		}
	}
	if w := s.timeline.newestBefore(s.watch.Called); w != nil && w.revision > s.base {
		b := s.breachAt(i, fmt.Sprintf("%s, called %s, began with the state of version %d, although version %d had been acknowledged to %s %s",
			s.name(), at(s.watch.Called), s.base, w.revision, w.op.Client, at(w.op.Return)))
		b.evidence = append(b.evidence, describe(*w.op))
		b.spans = append(append(b.spans, spanOfWrite(w)...), s.opening())
		return []breach{b}
	}
	return nil
}
