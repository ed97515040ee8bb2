package system

import (
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic is a time that is the same for all processes of a machine, whatever was done to
// their wall clocks.
func Monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // Linux always has it
	}
	return time.Duration(t.Nano())
}
