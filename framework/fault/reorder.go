package fault

import "github.com/holdfast-ha/holdfast/framework"

// Reorder lets packets of a target overtake each other.
var Reorder = onLinks(&Fault{
	Name:    "reorder",
	Summary: "holds back a share of the packets between a target and its peers for a further 10 ms, so that later packets overtake them",
	Params:  []Param{hitParam(0.1)},
	Example: "etcd/leader share=25%",
}, func(r Request) framework.Impairment {
	return framework.Impairment{Reorder: Value[float64](r, "share")}
}, reorders)

func reorders(asked framework.Impairment, links []counted) finding {
	return hitShare(asked.Reorder, "reordered", links, func(c framework.LinkCounters) hits { return passing(asked, c, c.Reordered) })
}

// passing returns how many of the packets that another impairment may drop or duplicate were hit.
func passing(asked framework.Impairment, c framework.LinkCounters, hit uint64) hits {
	least := c.Matched
	if asked.FlapOn == 0 { // otherwise Passed is not counted
		least = min(c.Matched, c.Passed)
	}
	return hits{float64(hit), float64(least), float64(max(c.Matched, c.Passed))}
}
