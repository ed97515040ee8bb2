package fault

import "github.com/holdfast-ha/holdfast/framework"

// Duplicate sends packets of a target twice.
var Duplicate Fault = &linkFault{
	name:    "duplicate",
	summary: "sends a share of the packets between a target and its peers twice",
	params:  map[string]string{"share": shareDoc + "default 10%"},
	example: "etcd/leader share=50%",
	read: func(f Fault, p Params) (framework.Impairment, error) {
		share, err := someParam(f, p, "share", 0.1)
		return framework.Impairment{Duplicate: share}, err
	},
	shows: func(asked framework.Impairment, links []counted) finding {
		return hitShare(asked.Duplicate, "duplicated", links, func(c framework.LinkCounters) hits {
			// What another impairment drops is not duplicated.
			return hits{float64(c.Duplicated), float64(min(c.Matched, c.Passed-min(c.Passed, c.Duplicated))), float64(c.Matched)}
		})
	},
}
