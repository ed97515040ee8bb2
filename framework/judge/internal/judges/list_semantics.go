package judges

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var listSemantics = Definition{Doc{
	Name:      "list-semantics",
	Invariant: "HA-INV-004",
	Lasting:   true,
	Guarantee: "A successful response to a list is a list, and exactly the state of its version. Without a resourceVersion, this version is at least as new as every write and deletion acknowledged, and every version read, before the call; " +
		"with NotOlderThan, it is at least the requested version; with Exact, the requested version; with 0, any version.",
	Source: "Kubernetes API concepts (resource versions); KEP-2340 (consistent reads from the cache); etcd API guarantees, key-value APIs",
	Params: map[string]string{
		"each": "how many lists of each kind every API server must have answered, since the check's fault where it names one: unset, 0, NotOlderThan, Exact, and paged (default 0)",
	},
}, given(count("each", 0, 0), judgeListSemantics)}

func judgeListSemantics(m *facts.Case, each int) Finding {
	const must = "A list must be the state of a version that was asked for"
	c := m.Collections()
	known := c.Witnesses(m.Run)
	var breaches []facts.Breach
	judged, items := 0, 0
	for _, l := range c.Lists {
		if l.Outcome != record.OK && l.Other == "" || len(l.Pages) == 0 {
			continue
		}
		judged++
		if l.Other != "" {
			breaches = append(breaches, l.Breach("was answered with something else: "+l.Other)...)
			continue
		}
		if l.Version() == 0 {
			breaches = append(breaches, l.Breach(fmt.Sprintf("gave version %q, which is not a version", l.Pages[0].Revision))...)
			continue
		}
		items += len(l.Items)
		breaches = append(breaches, l.Wrong(known[l.Timeline])...)
	}
	if judged == 0 {
		return notApplicable("The record has no list of a collection that was answered.")
	}
	of := fmt.Sprintf("%d lists, %d items", judged, items)
	if missing := fewLists(m, c, each); missing != "" && len(breaches) == 0 {
		return Inconclusive("%s, fewer than the %d required for a verdict", missing, each)
	}
	return conclude(must, "", of, breaches)
}

// fewLists names an API server that answered fewer lists of some kind than each since
// the check's fault, or is empty.
func fewLists(m *facts.Case, c *facts.Collections, each int) string {
	type kind struct {
		entrance string
		match    record.ListMatch
	}
	const paged = "paged"
	from := record.Nanos(0)
	if m.Fault != nil {
		from = m.Fault.Effect()
	}
	answered := map[kind]int{}
	for _, l := range c.Lists {
		if l.API != facts.APIKubernetes || l.Outcome != record.OK || l.Call < from {
			continue
		}
		answered[kind{l.Entrance, l.Match}]++
		if len(l.Pages) > 1 {
			answered[kind{l.Entrance, paged}]++
		}
	}
	for _, e := range m.APIServers() {
		for _, match := range []record.ListMatch{record.MatchUnset, record.MatchAny, record.MatchNotOlderThan, record.MatchExact, paged} {
			if n := answered[kind{e, match}]; n < each {
				return fmt.Sprintf("%s answered %s (%s)", e, text.Plural(n, "list"), match)
			}
		}
	}
	return ""
}
