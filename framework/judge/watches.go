package judge

import "fmt"

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

func every(*stream) bool { return true }

// hasEvents tells whether the watch showed a change.
func hasEvents(s *stream) bool { return len(s.index) > 0 }

func etcdEvents(s *stream) bool { return s.watch.API == apiEtcd && hasEvents(s) }
