package fault

import "github.com/holdfast-ha/holdfast/framework"

// hitParam is the share of the packets that an impairment hits.
func hitParam(unset float64) Param {
	return shareParam("share", "how many of the packets are affected; the proof requires ten affected packets, so the fault adds packets of its own on links with little traffic", unset)
}

// Loss loses packets of a target.
var Loss = onLinks(&Fault{
	Name:    "loss",
	Summary: "drops a share of the packets between a target and its peers, each independently",
	Params:  []Param{hitParam(0.1)},
	Example: "node/leader share=30% direction=out",
}, func(r Request) framework.Impairment {
	return framework.Impairment{Loss: Value[float64](r, "share")}
}, losses)

func losses(asked framework.Impairment, links []counted) finding {
	return hitShare(asked.Loss, "dropped", links, func(c framework.LinkCounters) hits {
		return hits{float64(c.Dropped), float64(c.Matched), float64(c.Matched)}
	})
}
