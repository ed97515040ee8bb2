package fault

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework"
)

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
	shows: func(_ framework.Impairment, n framework.LinkCounters) (bool, string) {
		return n.Reordered > 0, fmt.Sprintf("%d packets reordered", n.Reordered)
	},
}
