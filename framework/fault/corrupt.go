package fault

import "github.com/holdfast-ha/holdfast/framework"

// Corrupt damages packets of a target.
var Corrupt = onLinks(&Fault{
	Name:    "corrupt",
	Summary: "flips one bit of a share of the packets between a target and its peers, which checksums detect, so the receiver drops them",
	Params:  []Param{hitParam(0.01)},
	Example: "etcd/follower share=5%",
}, func(r Request) framework.Impairment {
	return framework.Impairment{Corrupt: Value[float64](r, "share")}
}, corrupts)

func corrupts(asked framework.Impairment, links []counted) finding {
	return hitShare(asked.Corrupt, "corrupted", links, func(c framework.LinkCounters) hits { return passing(asked, c, c.Corrupted) })
}
