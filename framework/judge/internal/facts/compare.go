package facts

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// difference is where a list, or the initial state of a watch, differs from the state at a
// version.
type difference struct {
	what   string
	change *KeyChange // that should have been shown, or is the nearest to it
}

// compare compares items with the state of a scope in a version, as far as it is known. last is
// the last key that the items cover, empty for all. It returns nil if they are the same.
func (t *Timeline) compare(sc Scope, revision uint64, items []record.Item, last string) *difference {
	has := make(map[string]bool, len(items))
	for i := range items {
		item := &items[i]
		has[item.Key] = true
		if d := t.compareItem(sc, revision, item); d != nil {
			return d
		}
	}
	keys := t.Keys
	if sc.Key != "" {
		keys = []string{sc.Key}
	}
	for _, key := range keys {
		if last != "" && key >= last {
			break
		}
		l := t.Lines[key]
		if l == nil || has[key] {
			continue
		}
		if c, known := l.At(revision); known && c != nil && sc.has(c) {
			return &difference{fmt.Sprintf("it lacks %s", c.Describe()), c}
		}
	}
	return nil
}

func (t *Timeline) compareItem(sc Scope, revision uint64, item *record.Item) *difference {
	shown := fmt.Sprintf("it has %s = %q in version %s", item.Key, item.Value, item.Revision)
	if problem := t.Stranger(item.Key, item.Value, record.Number(item.Revision)); problem != "" {
		return &difference{what: shown + ", " + problem}
	}
	if sc.Key != "" && item.Key != sc.Key {
		return &difference{what: shown + ", which was not asked for"}
	}
	if sc.Group != "" && item.Group != "" && item.Group != sc.Group {
		return &difference{what: shown + ", which is in group " + item.Group}
	}
	if record.Number(item.Revision) > revision {
		return &difference{what: shown + ", which came later"}
	}
	l := t.Lines[item.Key]
	if l == nil {
		return nil
	}
	c, known := l.At(revision)
	switch {
	case !known:
		return nil
	case c == nil:
		d := &difference{what: shown + ", which did not exist"}
		for i := range l.Changes {
			if c := &l.Changes[i]; c.Revision <= revision && c.Revision > record.Number(item.Revision) {
				d.change, d.what = c, shown+", after "+c.Describe()
				break
			}
		}
		return d
	case c.Revision != record.Number(item.Revision) || c.Value != item.Value:
		return &difference{shown + ", instead of " + c.Describe(), c}
	case !sc.has(c) || item.Group != "" && c.Group != "" && c.Group != item.Group:
		return &difference{shown + fmt.Sprintf(" in group %q, but it was in group %q", item.Group, c.Group), c}
	}
	return nil
}

// Stranger says why a key cannot have a value in a version, whatever happened to the key; empty
// if it can.
func (t *Timeline) Stranger(key, value string, revision uint64) string {
	pair := PairOf{key, value}
	w := t.ByValue[pair]
	switch {
	case w == nil && t.refused[pair] != nil:
		return "of a write that was refused (" + text.Describe(*t.refused[pair]) + ")"
	case w == nil && (t.First == NoVersion || revision < t.First):
		return "" // from before the record, or of a collection without writes
	case w == nil:
		return "which no client wrote"
	case w.Op.Outcome == record.OK && w.Op.Revision != "" && w.Revision != revision:
		return fmt.Sprintf("but the write of that value made version %d", w.Revision)
	case w.Revision != revision:
		return fmt.Sprintf("but that value was also seen in version %d", w.Revision)
	}
	return ""
}

// state returns what the first n messages of a watch leave.
func (s *Stream) state(n int) []record.Item {
	at := map[string]int{}
	var items []record.Item
	for _, m := range s.Messages[:n] {
		if m.Bookmark() {
			continue
		}
		item := record.Item{Key: m.Key, Value: m.Value, Group: m.Group, Revision: m.Revision}
		i, ok := at[m.Key]
		if !ok {
			i = len(items)
			at[m.Key] = i
			items = append(items, record.Item{})
		}
		if m.Type == record.EventDeleted {
			item = record.Item{}
		}
		items[i] = item
	}
	return slices.DeleteFunc(items, func(i record.Item) bool { return i.Key == "" })
}

// Begins compares the initial state of a watch with the state at its version.
func (s *Stream) Begins() []Breach {
	if s.Base == 0 || !s.WithState() {
		return nil
	}
	d := s.Timeline.compare(s.Scope(), s.Base, s.state(s.Begin), "")
	if d == nil {
		return nil
	}
	i := s.Begin // the message that shows the version
	if s.Watch.Initial {
		i--
	}
	b := s.BreachAt(i, fmt.Sprintf("%s began with something other than the state of version %d: %s", s.Name(), s.Base, d.what), d.change)
	b.Spans = append(b.Spans, s.Opening())
	return []Breach{b}
}
