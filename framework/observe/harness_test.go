package observe

import (
	"sync/atomic"
	"testing"
)

// A busy machine is seen as such.
func TestRunnable(t *testing.T) {
	var stop atomic.Bool
	defer stop.Store(true)
	go func() {
		for !stop.Load() {
		}
	}()
	waitFor(t, "the spinning task to be counted", func() bool {
		n, ok := runnable()
		if !ok {
			t.Fatal("/proc/loadavg was not understood")
		}
		return n > 0
	})
	var m mean
	if m.value() != 0 {
		t.Errorf("mean of nothing: %v", m.value())
	}
	m.add(1)
	m.add(2)
	if m.value() != 1.5 {
		t.Errorf("mean %v", m.value())
	}
}
