package judge

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// difference is where a list, or the state with which a watch began, is not the state
// of a version.
type difference struct {
	what   string
	change *keyChange // that should have been shown, or is the nearest to it
}

// compare holds items against the state of a scope in a version, as far as that is
// known. last is the key up to which the items go, empty for all. It returns nil where
// they are the same.
func (t *timeline) compare(sc scope, revision uint64, items []record.Item, last string) *difference {
	has := make(map[string]bool, len(items))
	for i := range items {
		item := &items[i]
		has[item.Key] = true
		if d := t.compareItem(sc, revision, item); d != nil {
			return d
		}
	}
	keys := t.keys
	if sc.key != "" {
		keys = []string{sc.key}
	}
	for _, key := range keys {
		if last != "" && key >= last {
			break
		}
		l := t.lines[key]
		if l == nil || has[key] {
			continue
		}
		if c, known := l.at(revision); known && c != nil && sc.has(c) {
			return &difference{fmt.Sprintf("it lacks %s", c.describe()), c}
		}
	}
	return nil
}

func (t *timeline) compareItem(sc scope, revision uint64, item *record.Item) *difference {
	shown := fmt.Sprintf("it has %s = %q in version %s", item.Key, item.Value, item.Revision)
	if problem := t.stranger(item.Key, item.Value, number(item.Revision)); problem != "" {
		return &difference{what: shown + ", " + problem}
	}
	if sc.key != "" && item.Key != sc.key {
		return &difference{what: shown + ", which was not asked for"}
	}
	if sc.group != "" && item.Group != "" && item.Group != sc.group {
		return &difference{what: shown + ", which is of group " + item.Group}
	}
	if number(item.Revision) > revision {
		return &difference{what: shown + ", which came later"}
	}
	l := t.lines[item.Key]
	if l == nil {
		return nil
	}
	c, known := l.at(revision)
	switch {
	case !known:
		return nil
	case c == nil:
		d := &difference{what: shown + ", which was not there"}
		for i := range l.changes {
			if c := &l.changes[i]; c.revision <= revision && c.revision > number(item.Revision) {
				d.change, d.what = c, shown+", after "+c.describe()
				break
			}
		}
		return d
	case c.revision != number(item.Revision) || c.value != item.Value:
		return &difference{shown + ", instead of " + c.describe(), c}
	case !sc.has(c) || item.Group != "" && c.group != "" && c.group != item.Group:
		return &difference{shown + fmt.Sprintf(" in group %q, but it was in group %q", item.Group, c.group), c}
	}
	return nil
}

// stranger says why a value cannot be that of a key in a version, whatever happened to
// the key; empty where it can.
func (t *timeline) stranger(key, value string, revision uint64) string {
	pair := pairOf{key, value}
	w := t.byValue[pair]
	switch {
	case w == nil && t.refused[pair] != nil:
		return "of a write that was refused (" + describe(*t.refused[pair]) + ")"
	case w == nil && (t.first == noVersion || revision < t.first):
		return "" // from before the record, or of a collection without writes
	case w == nil:
		return "which nobody wrote"
	case w.op.Outcome == record.OK && w.op.Revision != "" && w.revision != revision:
		return fmt.Sprintf("but the write of that value made version %d", w.revision)
	case w.revision != revision:
		return fmt.Sprintf("but that value was also seen in version %d", w.revision)
	}
	return ""
}

// state returns what the first n messages of a watch leave.
func (s *stream) state(n int) []record.Item {
	at := map[string]int{}
	var items []record.Item
	for _, m := range s.messages[:n] {
		if m.bookmark() {
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
	kept := items[:0]
	for _, item := range items {
		if item.Key != "" {
			kept = append(kept, item)
		}
	}
	return kept
}

// begins holds the state with which a watch began against that of the version.
func (s *stream) begins() []breach {
	if s.base == 0 || !s.withState() {
		return nil
	}
	d := s.timeline.compare(s.scope(), s.base, s.state(s.begin), "")
	if d == nil {
		return nil
	}
	i := s.begin // the message that shows the version
	if s.watch.Initial {
		i--
	}
	b := s.breachAt(i, fmt.Sprintf("%s began with something else than the state of version %d: %s", s.name(), s.base, d.what), d.change)
	b.spans = append(b.spans, s.opening())
	return []breach{b}
}
