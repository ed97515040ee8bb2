package fault

import "github.com/holdfast-ha/holdfast/framework"

// Duplicate sends packets of a target twice.
var Duplicate = onLinks(&Fault{
	Name:    "duplicate",
	Summary: "sends a share of the packets between a target and its peers twice",
	Params:  []Param{hitParam(0.1)},
	Example: "etcd/leader share=50%",
}, func(r Request) framework.Impairment {
	return framework.Impairment{Duplicate: Value[float64](r, "share")}
}, duplicates)

func duplicates(asked framework.Impairment, links []counted) finding {
	return hitShare(asked.Duplicate, "duplicated", links, func(c framework.LinkCounters) hits {
		least := c.Matched
		if asked.FlapOn == 0 { // otherwise Passed is not counted
			least = min(c.Matched, c.Passed-min(c.Passed, c.Duplicated)) // what another impairment drops is not duplicated
		}
		return hits{float64(c.Duplicated), float64(least), float64(c.Matched)}
	})
}
