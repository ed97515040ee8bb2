package judges

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
)

var watchOrdered = Definition{Doc{
	Name:      "watch-ordered",
	Invariant: "HA-INV-005",
	Lasting:   true,
	Guarantee: "The events of a watch come in the order of their versions; equal versions are those of one etcd transaction on several keys. The initial state that a watch may begin with is not ordered.",
	Source:    sourceAPI + "; " + sourceEtcd + " (ordered)",
}, watches("Events of a watch must come in the order of their versions", "watch that showed a change", hasEvents, disorder)}

func disorder(s *facts.Stream) []facts.Breach {
	top := -1
	var breaches []facts.Breach
	for i, m := range s.Messages {
		if m.Bookmark() {
			continue
		}
		if top >= 0 && s.Live(i) {
			highest := s.Messages[top]
			same := m.Number == highest.Number && m.Key != highest.Key && s.Watch.API == facts.APIKubernetes
			if m.Number < highest.Number || same {
				breaches = append(breaches, s.BreachAt(i, fmt.Sprintf("%s showed version %s of %s after version %s of %s",
					s.Name(), m.Revision, m.Key, highest.Revision, highest.Key), s.ChangeOf(m), s.ChangeOf(highest)))
			}
		}
		if top < 0 || m.Number >= s.Messages[top].Number {
			top = i
		}
	}
	return breaches
}
