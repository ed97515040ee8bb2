package observe

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
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

func TestCalm(t *testing.T) {
	if waited := Quiet(t.Context(), 0); waited > quietFor {
		t.Errorf("waited %s, against a limit of nothing", waited)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if waited := Quiet(ctx, time.Minute); waited > quietFor {
		t.Errorf("waited %s though it was interrupted", waited)
	}
	// More tasks than processors, for longer than the limit.
	busy, end := context.WithCancel(t.Context())
	defer end()
	for range 4 * runtime.NumCPU() {
		go func() {
			runtime.LockOSThread()
			for busy.Err() == nil {
			}
		}()
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8 * runtime.NumCPU()))
	const limit = 1500 * time.Millisecond
	if waited := Quiet(t.Context(), limit); waited < limit {
		t.Errorf("a busy machine was quiet after %s", waited)
	}
}
