package fault

import (
	"context"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// ClockJump moves the wall clock at once.
var ClockJump Fault = clockJump{}

type clockJump struct{}

// Limits of a jump. Less than the first is not seen for sure in the dates of
// answers, which come to the second.
const (
	shortestJump = time.Second
	longestJump  = 10 * 365 * 24 * time.Hour
	usualJump    = time.Minute
)

func (clockJump) Name() string { return "clock-jump" }

func (clockJump) Doc() Doc {
	return Doc{
		Summary: "moves the wall clock of a component, or of all components of a node, at once; monotonic clocks go on",
		Targets: []string{"node", "component"},
		Params:  map[string]string{"offset": "by how much, ahead (60s) or back (-60s): a duration from 1s to 87600h (10 years) either way (default 60s)"},
		Needs:   []string{"ClockShifter", "EndpointLister", "ProcessReporter"},
		Example: "node/2 offset=-60s",
	}
}

func (f clockJump) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.parts(c, t, p)
	return err
}

func (f clockJump) parts(c framework.Cluster, t Target, p Params) (*clockShift, error) {
	offset, err := durationParam(f, p, "offset", usualJump, -longestJump, longestJump)
	if err != nil {
		return nil, err
	}
	if offset.Abs() < shortestJump {
		return nil, badParam(f, p, "offset", "%s or more, ahead or back", shortestJump)
	}
	x, err := newClockShift(f, c, t, p)
	if err != nil {
		return nil, err
	}
	x.shift.Offset = offset
	return x, nil
}

func (f clockJump) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	x, err := f.parts(c, t, p)
	if err != nil {
		return nil, err
	}
	return x.inject(ctx)
}
