package fault

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// Limits of a jump. A jump below the first does not show for sure in the dates of responses,
// which have a resolution of one second.
const (
	shortestJump = time.Second
	longestJump  = 10 * 365 * 24 * time.Hour
	usualJump    = time.Minute
)

// ClockJump moves the wall clock.
var ClockJump = onClock(&Fault{
	Name:    "clock-jump",
	Summary: "moves the wall clock of a component, or of all components of a node, in one step; monotonic clocks are not affected; on amd64 only",
	Params:  []Param{durationParam("offset", "by how much, ahead (60s) or back (-60s), 1s or more", usualJump, -longestJump, longestJump)},
	Example: "node/2 offset=-60s",
}, func(r Request) (framework.ClockShift, error) {
	offset := Value[time.Duration](r, "offset")
	if offset.Abs() < shortestJump {
		return framework.ClockShift{}, r.bad("offset", "%s or more, ahead or back", shortestJump)
	}
	return framework.ClockShift{Offset: offset}, nil
})
