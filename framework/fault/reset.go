package fault

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework"
)

// Reset resets connections of a target.
var Reset = onLinks(&Fault{
	Name:    "reset",
	Summary: "answers TCP segments between a target and its peers with RST to both ends, as when a firewall rejects them; connections without traffic stay open",
	Params:  []Param{establishedParam},
	Example: "etcd/leader port=etcd-peer established=true",
}, func(r Request) framework.Impairment {
	return framework.Impairment{Reset: true, Established: Value[bool](r, "established")}
}, resets)

func resets(_ framework.Impairment, links []counted) finding {
	n := total(links)
	return finding{shown: n.Resets > 0 && n.Dropped > 0, seen: fmt.Sprintf("%d segments with RST sent for %d packets dropped", n.Resets, n.Dropped)}
}
