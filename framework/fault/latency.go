package fault

import (
	"fmt"
	"math"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// Latency delays packets of a target.
var Latency Fault = &linkFault{
	name:    "latency",
	summary: "delays each packet between a target and its peers; with direction=both a round trip takes twice as much longer",
	params: map[string]string{
		"delay":        "what is added to each packet, one way: a duration from 100us to 1m; default 20ms",
		"jitter":       "by how much the delay varies: a duration from 0s to 1m; default 0s. No packet is delayed by less than nothing",
		"distribution": "of the jitter: uniform (± jitter), normal or pareto (jitter is the standard deviation); default uniform",
	},
	example: "etcd/leader delay=50ms jitter=10ms distribution=normal",
	read: func(f Fault, p Params) (framework.Impairment, error) {
		var imp framework.Impairment
		var err error
		if imp.Delay, err = durationParam(f, p, "delay", 20*time.Millisecond, 100*time.Microsecond, time.Minute); err != nil {
			return imp, err
		}
		if imp.Jitter, err = durationParam(f, p, "jitter", 0, 0, time.Minute); err != nil {
			return imp, err
		}
		imp.Distribution, err = choiceParam(f, p, "distribution", "uniform", "normal", "pareto")
		return imp, err
	},
	shows: delays,
}

// delays shows that packets were delayed by as much as was asked, as measured.
// More is no sign of a fault that does not work: a busy machine adds to it. By
// how much the mean of some packets may fall short is what chance allows, at
// three standard deviations.
func delays(asked framework.Impairment, n framework.LinkCounters) (bool, string) {
	if n.Held == 0 {
		return false, fmt.Sprintf("%d packets delayed and none of them delivered", n.Delayed)
	}
	mean := n.HeldFor / time.Duration(n.Held)
	least := asked.Delay - time.Duration(3*float64(asked.Jitter)/math.Sqrt(float64(n.Held)))
	return mean >= least, fmt.Sprintf("%d packets delayed by %s on average, %s ± %s asked for,", n.Held, mean.Round(10*time.Microsecond), asked.Delay, asked.Jitter)
}
