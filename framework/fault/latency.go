package fault

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// Latency delays packets of a target.
var Latency = onLinks(&Fault{
	Name:    "latency",
	Summary: "delays each packet between a target and its peers; with direction=both, the delay is added twice to each round trip",
	Params: []Param{
		durationParam("delay", "what is added to each packet, one way", 20*time.Millisecond, 100*time.Microsecond, time.Minute),
		durationParam("jitter", "by how much the delay varies; the delay is never negative", 0, 0, time.Minute),
		choiceParam("distribution", "distribution of the delay; jitter is the largest deviation of uniform, and the standard deviation of the others", "uniform", "normal", "pareto"),
	},
	Example: "etcd/leader delay=50ms jitter=10ms distribution=normal",
	takes: func(r Request) time.Duration {
		return longestDelay(Value[time.Duration](r, "delay"), Value[time.Duration](r, "jitter"))
	},
}, func(r Request) framework.Impairment {
	return framework.Impairment{Delay: Value[time.Duration](r, "delay"), Jitter: Value[time.Duration](r, "jitter"), Distribution: Value[string](r, "distribution")}
}, delays)

// longestDelay is how long a packet may be delayed, but for very few if the distribution has no bound.
func longestDelay(delay, jitter time.Duration) time.Duration { return delay + 4*jitter }
