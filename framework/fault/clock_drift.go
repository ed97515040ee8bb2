package fault

import (
	"math"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
)

const usualDrift = 1000e-6

// ClockDrift makes the wall clock run too fast or too slow.
var ClockDrift = onClock(&Fault{
	Name:    "clock-drift",
	Summary: "makes the wall clock of a component, or of all components of a node, run too fast or too slow; monotonic clocks are not affected, and healing corrects it immediately; on amd64 only",
	Params: []Param{{Name: "rate", Doc: "how much the clock gains per second, or loses if negative", Default: ppm(usualDrift),
		Allowed: "from 1ppm to 500000ppm, or from -1ppm to -500000ppm, such as 1000ppm or -0.1%",
		Parse:   parsed(usualDrift, parseRate)}},
	Example: "etcd/follower rate=-2000ppm",
}, func(r Request) (framework.ClockShift, error) {
	return framework.ClockShift{Drift: Value[float64](r, "rate")}, nil
})

// parseRate reads a share from one millionth to a half, either way, written as 1000ppm or
// 0.1%.
func parseRate(v string) (float64, bool) {
	number, unit := strings.CutSuffix(v, "ppm")
	scale := 1e-6
	if !unit {
		number, unit = strings.CutSuffix(v, "%")
		scale = 1e-2
	}
	rate, err := strconv.ParseFloat(number, 64)
	rate *= scale
	size := math.Abs(rate)
	return rate, err == nil && unit && size >= 0.99e-6 && size <= 0.5
}
