package fault

import (
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
