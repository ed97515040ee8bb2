package fault

import "github.com/holdfast-ha/holdfast/framework"

const shareDoc = "of the packets, above 0% up to 100%, such as 10% or 0.1; the proof takes ten packets that are hit, for which packets of its own are sent along links that carry few; "

// Loss loses packets of a target.
var Loss Fault = &linkFault{
	name:    "loss",
	summary: "drops a share of the packets between a target and its peers, each by itself",
	params:  map[string]string{"share": shareDoc + "default 10%"},
	example: "node/leader share=30% direction=out",
	read: func(f Fault, p Params) (framework.Impairment, error) {
		share, err := someParam(f, p, "share", 0.1)
		return framework.Impairment{Loss: share}, err
	},
	shows: func(asked framework.Impairment, links []counted) finding {
		return hitShare(asked.Loss, "dropped", links, func(c framework.LinkCounters) hits {
			return hits{float64(c.Dropped), float64(c.Matched), float64(c.Matched)}
		})
	},
}

// someParam returns a share that is above zero.
func someParam(f Fault, p Params, name string, unset float64) (float64, error) {
	share, err := shareParam(f, p, name, unset)
	if err != nil || share == 0 {
		return 0, badParam(f, p, name, "a share above 0%% up to 100%%, such as 10%% or 0.1")
	}
	return share, nil
}
