package judge

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	sourceAPI  = "Kubernetes API concepts (efficient detection of changes)"
	sourceEtcd = "etcd API guarantees, watch APIs"
)

// watches runs a judge of single watches over those that it applies to. must is the
// guarantee; what says what the applicable watches are, where there are none.
func (m *matter) watches(must, what string, applies func(*stream) bool, inspect func(*stream) []breach) finding {
	var breaches []breach
	watches, messages, after := 0, 0, 0
	for _, s := range m.collections().streams {
		if !s.opened || !applies(s) {
			continue
		}
		watches++
		messages += len(s.messages)
		for _, e := range s.messages {
			if m.fault != nil && e.Seen >= m.fault.effect() {
				after++
			}
		}
		breaches = append(breaches, inspect(s)...)
	}
	if watches == 0 {
		return notApplicable("the record has no %s", what)
	}
	of := fmt.Sprintf("%d watches, %d messages", watches, messages)
	return m.exposed(conclude(must, fmt.Sprintf("%s: it holds for %s.", must, of), of, breaches), after, "message")
}

// enoughExposed is how many messages must have come after the effect of the fault that a
// check is about, or how many operations must have met it.
const enoughExposed = 10

// exposed takes the pass from a check about a fault that too little came after.
func (m *matter) exposed(f finding, n int, what string) finding {
	if f.verdict != Pass || m.fault == nil || n >= enoughExposed {
		return f
	}
	return inconclusive("%s came after the %s took effect, and it takes %d to say anything", plural(n, what), m.fault.what(), enoughExposed)
}

// met takes the pass from a check about a fault that too few operations met.
func (m *matter) met(f finding, n int) finding {
	if f.verdict != Pass || m.fault == nil || n >= enoughExposed || !m.lasts() {
		return m.exposed(f, n, "answered operation")
	}
	return inconclusive("%s came while the %s lasted (%s to %s), and it takes %d to say anything",
		plural(n, "answered operation"), m.fault.what(), when(m.fault.effect()), when(m.fault.healed.Called), enoughExposed)
}

// lasts reports whether the check's fault is one that operations are answered under: it lasts
// for longer than the measuring margin, and leaves most nodes alone. What any other fault
// does shows in the operations that come after it.
func (m *matter) lasts() bool {
	if m.fault.healed == nil || m.fault.healed.Called-m.fault.effect() <= record.Nanos(m.run.Meta.Settings["M"]) {
		return false
	}
	return 2*len(m.fault.nodes()) < len(m.run.Meta.Nodes)
}

// meets reports whether an operation that was called at some time met the check's fault: one
// after a fault that lasted was healed did not.
func (m *matter) meets(called record.Nanos) bool {
	return m.fault != nil && called >= m.fault.effect() && (!m.lasts() || called < m.fault.healed.Called)
}

func every(*stream) bool { return true }

// hasEvents tells whether the watch showed a change.
func hasEvents(s *stream) bool { return len(s.index) > 0 }

func etcdEvents(s *stream) bool { return s.watch.API == apiEtcd && hasEvents(s) }

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
