package fault

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

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
	shows: func(asked framework.Impairment, n framework.LinkCounters) (bool, string) {
		if n.Held == 0 {
			return false, fmt.Sprintf("no packet has passed at %d bit/s", asked.Rate)
		}
		return true, fmt.Sprintf("%d packets passed at %d bit/s, held for %s on average, and %d dropped from the queue", n.Held, asked.Rate, (n.HeldFor / time.Duration(n.Held)).Round(time.Microsecond), n.Dropped)
	},
}
