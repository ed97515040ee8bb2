package fault

import "github.com/holdfast-ha/holdfast/framework"

// Bandwidth limits how fast packets of a target go.
var Bandwidth Fault = &linkFault{
	name:    "bandwidth",
	summary: "limits the rate of packets between a target and its peers, each link by itself; what would wait for more than 200 ms is dropped, as by a router with a short queue",
	params:  map[string]string{"rate": "bits per second on each link, from 1k to 100G, such as 10M; default 10M"},
	example: "node/2 rate=1M direction=out",
	read: func(f Fault, p Params) (framework.Impairment, error) {
		rate, err := sizeParam(f, p, "rate", 10e6, 1e3, 100e9)
		return framework.Impairment{Rate: rate}, err
	},
	shows: rates,
}
