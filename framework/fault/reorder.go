package fault

import "github.com/holdfast-ha/holdfast/framework"

// Reorder lets packets of a target overtake each other.
var Reorder Fault = &linkFault{
	name:    "reorder",
	summary: "holds a share of the packets between a target and its peers back for a further 10 ms, so that those behind them overtake",
	params:  map[string]string{"share": shareDoc + "default 10%"},
	example: "etcd/leader share=25%",
	read: func(f Fault, p Params) (framework.Impairment, error) {
		share, err := someParam(f, p, "share", 0.1)
		return framework.Impairment{Reorder: share}, err
	},
	shows: func(asked framework.Impairment, links []counted) finding {
		return hitShare(asked.Reorder, "reordered", links, func(c framework.LinkCounters) hits {
			return hits{float64(c.Reordered), float64(min(c.Matched, c.Passed)), float64(max(c.Matched, c.Passed))}
		})
	},
}
