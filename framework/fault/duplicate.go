package fault

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework"
)

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
	shows: func(_ framework.Impairment, n framework.LinkCounters) (bool, string) {
		return n.Duplicated > 0, fmt.Sprintf("%d packets duplicated", n.Duplicated)
	},
}
