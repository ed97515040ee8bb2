package fault

import "github.com/holdfast-ha/holdfast/framework"

// Bandwidth limits how fast packets of a target go.
var Bandwidth = onLinks(&Fault{
	Name:    "bandwidth",
	Summary: "limits the rate of packets between a target and its peers, each link separately; packets that would wait for more than 200 ms are dropped, as in a router with a short queue. The queue always has room for 48 KiB, so below 2 Mbit/s packets may wait longer (393 ms at 1M)",
	Params:  []Param{sizeParam("rate", "bits per second on each link", 10e6, 1e3, 100e9).unless("10M")},
	Example: "node/2 rate=1M direction=out",
}, func(r Request) framework.Impairment {
	return framework.Impairment{Rate: Value[int64](r, "rate")}
}, rates)
