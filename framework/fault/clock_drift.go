package fault

import (
	"context"
	"math"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
)

// ClockDrift makes the wall clock go too fast or too slow.
var ClockDrift Fault = clockDrift{}

type clockDrift struct{}

func (clockDrift) Name() string { return "clock-drift" }

func (clockDrift) Doc() Doc {
	return Doc{
		Summary: "makes the wall clock of a component, or of all components of a node, go too fast or too slow; monotonic clocks go on, and healing makes it right at once",
		Targets: []string{"node", "component"},
		Params:  map[string]string{"rate": "what the clock gains, or loses if negative, of each second: from 1ppm to 500000ppm either way, or in per cent as 0.1% (default 1000ppm)"},
		Needs:   []string{"ClockShifter", "EndpointLister", "ProcessReporter"},
		Example: "etcd/follower rate=-2000ppm",
	}
}

func (f clockDrift) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.parts(c, t, p)
	return err
}

func (f clockDrift) parts(c framework.Cluster, t Target, p Params) (*clockShift, error) {
	rate, err := rateParam(f, p, "rate", 1000e-6)
	if err != nil {
		return nil, err
	}
	x, err := newClockShift(f, c, t, p)
	if err != nil {
		return nil, err
	}
	x.shift.Drift = rate
	return x, nil
}

// rateParam returns a share from one millionth to a half, either way, written as
// 1000ppm or 0.1%.
func rateParam(f Fault, p Params, name string, unset float64) (float64, error) {
	v := p.Values[name]
	if v == "" {
		return unset, nil
	}
	number, unit := strings.CutSuffix(v, "ppm")
	scale := 1e-6
	if !unit {
		number, unit = strings.CutSuffix(v, "%")
		scale = 1e-2
	}
	rate, err := strconv.ParseFloat(number, 64)
	rate *= scale
	if size := math.Abs(rate); err != nil || !unit || !(size >= 0.99e-6 && size <= 0.5) {
		return 0, badParam(f, p, name, "from 1ppm to 500000ppm, or from -1ppm to -500000ppm, such as 1000ppm or -0.1%%")
	}
	return rate, nil
}

func (f clockDrift) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	x, err := f.parts(c, t, p)
	if err != nil {
		return nil, err
	}
	return x.inject(ctx)
}
