package fault

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework"
)

// Reset ends connections of a target.
var Reset Fault = &linkFault{
	name:    "reset",
	summary: "answers TCP segments between a target and its peers with RST to both ends, as when a firewall rejects them; connections without traffic live on",
	params:  map[string]string{"established": establishedDoc},
	example: "etcd/leader port=etcd-peer established=true",
	read: func(f Fault, p Params) (framework.Impairment, error) {
		established, err := boolParam(f, p, "established")
		return framework.Impairment{Reset: true, Established: established}, err
	},
	shows: func(_ framework.Impairment, links []counted) finding {
		n := total(links)
		return finding{shown: n.Resets > 0 && n.Dropped > 0, seen: fmt.Sprintf("%d segments with RST sent for %d packets dropped", n.Resets, n.Dropped)}
	},
}
