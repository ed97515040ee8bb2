package judges

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var listWatch = Definition{Doc{
	Name: "list-watch",
	Guarantee: "A list and the watch from its version, and a streaming list, that start through an API server while it starts or soon after (the bound says how soon) are consistent: " +
		"they begin with a state as new as all that had been acknowledged before, and leave out no change after it. Streaming lists are not needed from an API server that always rejects them (feature gate WatchList).",
	Source:     "Kubernetes API concepts (efficient detection of changes, streaming lists); KEP-3157; issues of API servers that served an old cache after a restart",
	NeedsFault: true, NeedsBound: true, Killed: true,
}, judgeListWatch}

func judgeListWatch(m *facts.Case) Finding {
	const must = "Lists and watches through an API server that has just started must be complete and must not show the past"
	node := m.Fault.Node()
	from, to := m.Fault.Injected.Called, m.Fault.HealEffect()+record.Nanos(m.Bound.Limit)
	within := func(entrance string, called record.Nanos) bool {
		return entrance == node && called >= from && called <= to
	}

	c := m.Collections()
	known := c.Witnesses(m.Run)
	var breaches []facts.Breach
	versions := map[string]bool{} // of the lists
	for _, l := range c.Lists {
		if l.API != facts.APIKubernetes || !within(l.Entrance, l.Call) || l.Outcome != record.OK || len(l.Pages) == 0 || l.Version() == 0 {
			continue
		}
		versions[l.Pages[0].Revision] = true
		breaches = append(breaches, l.Wrong(known[l.Timeline])...)
	}
	listed, streamed, rejected, offered := 0, 0, false, false
	for _, s := range c.Streams {
		offered = offered || s.Watch.API == facts.APIKubernetes && s.Watch.Entrance == node && s.Watch.Initial && s.Opened
		if s.Watch.API != facts.APIKubernetes || !within(s.Watch.Entrance, s.Watch.Called) {
			continue
		}
		switch {
		case !s.Opened:
			rejected = rejected || s.Watch.Initial && s.Watch.Status == 422
			continue
		case s.Watch.Initial && s.Base > 0: // its initial events are complete
			streamed++
			breaches = append(append(breaches, s.Begins()...), s.StaleBegin()...)
		case s.Watch.Resumes == "" && versions[s.Watch.From]:
			listed++
		default:
			continue
		}
		breaches = append(breaches, s.LeftOut()...)
	}
	if len(breaches) == 0 && (listed == 0 || streamed == 0 && (offered || !rejected)) {
		return Inconclusive("through %s, from the %s until %s after it was healed, the record has %s continued as a watch and %s: one of each is required",
			node, m.Fault.What(), text.Short(time.Duration(m.Bound.Limit)), text.Plural(listed, "list"), text.Plural(streamed, "streaming list"))
	}
	of := text.Plural(listed, "watched list") + ", " + text.Plural(streamed, "streaming list")
	return conclude(must, fmt.Sprintf("Through %s, from the %s until %s after it was healed, %s continued as a watch and %s were complete and as new as asked for.",
		node, m.Fault.What(), text.Short(time.Duration(m.Bound.Limit)), text.Plural(listed, "list"), text.Plural(streamed, "streaming list")), of, breaches)
}
