package judges

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var watchFlags = Definition{Doc{
	Name:      "watch-flags",
	Invariant: "HA-INV-007",
	Lasting:   true,
	Guarantee: "An event reports added if the key did not exist, modified if it did, and deleted if it was deleted; etcd's create revision and version of the key agree with that.",
	Source:    sourceAPI + "; etcd API, key-value pair (create_revision, version)",
}, watches("An event must report correctly whether it added, modified or deleted", "watch that showed a change", hasEvents, func(s *facts.Stream) []facts.Breach {
	var breaches []facts.Breach
	for i, m := range s.Messages {
		if !s.Live(i) {
			continue
		}
		e, ok, known := s.Shown(m)
		what := contradiction(m)
		if what == "" && known && ok {
			what = wrongFlag(m, e)
		}
		if what != "" {
			var before *facts.KeyChange
			if known {
				before = s.BeforeOf(e)
			}
			breaches = append(breaches, s.BreachAt(i, fmt.Sprintf("%s showed %q %s, %s", s.Name(), m, text.At(m.Seen), what), e.KeyChange, before))
		}
	}
	return breaches
})}

// contradiction describes how an event of etcd contradicts itself.
func contradiction(m facts.Message) string {
	created := record.Number(m.CreateRevision)
	if created == 0 || m.Type == record.EventDeleted {
		return ""
	}
	if isNew := m.Type == record.EventAdded; isNew != (created == m.Number) || isNew != (m.Version == 1) || created > m.Number {
		return fmt.Sprintf("with create revision %s and version %d of the key", m.CreateRevision, m.Version)
	}
	return ""
}

// wrongFlag describes how an event contradicts the history.
func wrongFlag(m facts.Message, e facts.Expectation) string {
	switch {
	case e.Crossing:
		return "" // what watch-filter is about
	case e.Type != "" && e.Type != m.Type:
		return map[record.EventType]string{
			record.EventAdded:    "but the key did not exist before",
			record.EventModified: "but the key existed before and after",
			record.EventDeleted:  "but the key was deleted then",
		}[e.Type]
	case e.Sure && e.Type == "" && e.Present && m.Type == record.EventDeleted:
		return "but the key existed after it"
	case e.Created > 0 && m.CreateRevision != "" && m.Type != record.EventDeleted && (record.Number(m.CreateRevision) != e.Created || m.Version != e.Count):
		return fmt.Sprintf("with create revision %s and version %d of the key instead of %d and %d", m.CreateRevision, m.Version, e.Created, e.Count)
	}
	return ""
}
