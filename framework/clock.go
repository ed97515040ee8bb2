package framework

import (
	"context"
	"time"
)

// ClockShifter is the ability of a node to move the wall clock of its
// components. Their monotonic clocks go on as they were.
type ClockShifter interface {
	// ClockSupport returns nil where clocks can be moved, and otherwise why
	// not: it can be for reasons of the machine rather than of the provider.
	ClockSupport() error
	// ShiftClock moves the clocks of components, whether they run now or
	// start later, until UnshiftClock or until ttl has passed, and returns a
	// handle for it. Shifts of one component add up. None survives a loss of
	// power.
	ShiftClock(ctx context.Context, components []Component, s ClockShift, ttl time.Duration) (handle string, err error)
	// UnshiftClock takes a shift back; it does nothing where it is gone.
	UnshiftClock(ctx context.Context, handle string) error
	// ReadClock tells how the clock of a component that runs is moved now,
	// from the memory of its process.
	ReadClock(ctx context.Context, c Component) (ClockReading, error)
}

// ClockShift is how a clock is moved.
type ClockShift struct {
	// Offset is added at once.
	Offset time.Duration `json:"offset,omitempty"`
	// Drift is what the clock gains from then on, in seconds each second;
	// 0.001 is 1000 ppm, and a negative one loses.
	Drift float64 `json:"drift,omitempty"`
}

// ClockReading is how a component's clock is moved.
type ClockReading struct {
	// Offset is how far it is from the machine's clock now.
	Offset time.Duration `json:"offset"`
	// Drift is what it gains, in seconds each second.
	Drift float64 `json:"drift"`
	// Shifts are the handles of what is in force for the component.
	Shifts []string `json:"shifts"`
	// Untouched says that its code for reading clocks is the kernel's own.
	Untouched bool `json:"untouched"`
}
