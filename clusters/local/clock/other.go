//go:build !amd64

package clock

import (
	"errors"
	"os/exec"
	"runtime"
)

// ErrNotShifted is returned by Start for a process that runs with the real
// clock.
var ErrNotShifted = errors.New("the process is running, but its clock is not shifted")

var errArchitecture = errors.New("clocks can be shifted on amd64 only, and this is " + runtime.GOARCH)

// Supported returns nil where clocks can be shifted, and otherwise why not.
func Supported() error { return errArchitecture }

// Apply shifts the clock of a process that runs.
func Apply(int, Shift) error { return errArchitecture }

// Start starts cmd with a shifted clock.
func Start(*exec.Cmd, Shift) error { return errArchitecture }

// Read returns by how much the clock of a process is shifted.
func Read(int) (Shift, error) { return Shift{}, errArchitecture }
