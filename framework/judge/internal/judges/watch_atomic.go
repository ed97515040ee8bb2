package judges

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
)

var watchAtomic = Definition{Doc{
	Name:      "watch-atomic",
	Invariant: "HA-INV-005",
	Lasting:   true,
	Guarantee: "A watch of etcd receives all changes of one revision that it watches in one response.",
	Source:    sourceEtcd + " (atomic)",
}, watches("etcd must send the changes of one revision together", "watch of etcd that showed a change", etcdEvents, torn)}

func torn(s *facts.Stream) []facts.Breach {
	var breaches []facts.Breach
	first := map[uint64]int{} // by revision
	for i, m := range s.Messages {
		if m.Bookmark() {
			continue
		}
		f, seen := first[m.Number]
		if !seen {
			first[m.Number] = i
			for _, e := range s.Timeline.Between(s.Scope(), m.Number-1, m.Number) {
				if _, ok := s.Index[e.VersionOf]; !ok && m.Number > s.From() {
					breaches = append(breaches, s.BreachAt(i, fmt.Sprintf("%s showed %q %s, but not %s", s.Name(), m, text.At(m.Seen), e.Describe()), s.ChangeOf(m), e.KeyChange))
					break
				}
			}
			continue
		}
		if s.Messages[f].Batch != m.Batch && s.Index[m.ID()] == i {
			b := s.BreachAt(i, fmt.Sprintf("%s showed version %s of %s in response %d, and of %s in response %d",
				s.Name(), m.Revision, s.Messages[f].Key, s.Messages[f].Batch, m.Key, m.Batch), s.ChangeOf(m))
			b.Spans = append(b.Spans, s.Spans(f)...)
			breaches = append(breaches, b)
		}
	}
	return breaches
}
