package judge

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func listWatch() definition {
	return definition{Doc{
		Name: "list-watch",
		Guarantee: "A list and the watch from its version, and a streaming list, that are begun through an API server while it starts or soon after (the bound says how soon) are consistent: " +
			"they begin with a state as new as all that had been acknowledged before, and leave out no change after it.",
		Source:     "Kubernetes API concepts (efficient detection of changes, streaming lists); KEP-3157; issues of API servers that served an old cache after a restart",
		NeedsFault: true, NeedsBound: true,
	}, judgeListWatch}
}

func judgeListWatch(m *matter) finding {
	const must = "What is listed and watched through an API server that has just started must have nothing missing and nothing from the past"
	node := m.fault.node()
	from, to := m.fault.injected.Called, m.fault.healEffect()+record.Nanos(m.bound.Limit)
	within := func(entrance string, called record.Nanos) bool {
		return entrance == node && called >= from && called <= to
	}

	c := m.collections()
	known := c.witnesses(m.run)
	var breaches []breach
	versions := map[string]bool{} // of the lists
	for _, l := range c.lists {
		if l.API != apiKubernetes || !within(l.Entrance, l.Call) || l.Outcome != record.OK || len(l.Pages) == 0 || l.version() == 0 {
			continue
		}
		versions[l.Pages[0].Revision] = true
		breaches = append(breaches, l.wrong(known[l.timeline])...)
	}
	listed, streamed := 0, 0
	for _, s := range c.streams {
		if s.watch.API != apiKubernetes || !s.opened || !within(s.watch.Entrance, s.watch.Called) {
			continue
		}
		switch {
		case s.watch.Initial && s.base > 0: // its initial events are complete
			streamed++
			breaches = append(append(breaches, s.begins()...), s.staleBegin()...)
		case s.watch.Resumes == "" && versions[s.watch.From]:
			listed++
		default:
			continue
		}
		if g := s.findGap(); g != nil {
			breaches = append(breaches, s.gapBreach(g, ""))
		}
	}
	if len(breaches) == 0 && (listed == 0 || streamed == 0) {
		return inconclusive("through %s, from the %s until %s after it was healed, %d lists were watched from their version and %d streaming lists were begun: it takes one of each",
			node, m.fault.what(), short(time.Duration(m.bound.Limit)), listed, streamed)
	}
	of := fmt.Sprintf("%d list-watches, %d streaming lists", listed, streamed)
	return conclude(must, fmt.Sprintf("Through %s, from the %s until %s after it was healed, %d lists that were watched from their version and %d streaming lists were complete and as new as asked for.",
		node, m.fault.what(), short(time.Duration(m.bound.Limit)), listed, streamed), of, breaches)
}
