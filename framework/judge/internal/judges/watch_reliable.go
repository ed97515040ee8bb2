package judges

import (
	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
)

var watchReliable = Definition{Doc{
	Name:      "watch-reliable",
	Invariant: "HA-INV-005",
	Lasting:   true,
	Guarantee: "A watch shows every change of what it watches, from the version at which it begins to the last version that it shows or gives in a bookmark.",
	Source:    sourceAPI + "; " + sourceEtcd + " (reliable)",
}, watches("A watch must not leave out any change", "watch that showed anything", hasMessages, func(s *facts.Stream) []facts.Breach {
	if s.Watch.Initial { // its beginning is what watch-bookmark is about
		return s.LeftOut()
	}
	return append(s.Begins(), s.LeftOut()...)
})}
