package fault

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework"
)

// Corrupt damages packets of a target.
var Corrupt Fault = &linkFault{
	name:    "corrupt",
	summary: "flips one bit of a share of the packets between a target and its peers, which checksums show, so that the receiver drops them",
	params:  map[string]string{"share": shareDoc + "default 1%"},
	example: "etcd/follower share=5%",
	read: func(f Fault, p Params) (framework.Impairment, error) {
		share, err := someParam(f, p, "share", 0.01)
		return framework.Impairment{Corrupt: share}, err
	},
	shows: func(_ framework.Impairment, links []counted) finding {
		n := total(links)
		return finding{shown: n.Corrupted > 0, seen: fmt.Sprintf("%d packets corrupted", n.Corrupted), wants: burst}
	},
}
