package observe

import (
	"math"
	"testing"

	"github.com/prometheus/procfs"
)

// Of the machine's time, all but idling and waiting for disks is use; what guests use is counted once.
func TestProcessors(t *testing.T) {
	var p processors
	start := procfs.CPUStat{User: 100, Nice: 10, System: 50, Idle: 800, Iowait: 30, IRQ: 2, SoftIRQ: 3, Steal: 5, Guest: 7, GuestNice: 1}
	if busy, ok := p.next(start); ok || p.busy != 170 || p.all != 1000 {
		t.Errorf("%v, %+v", busy, p)
	}
	if busy, ok := p.next(start); ok {
		t.Errorf("no time has passed, and %v was used", busy)
	}
	later := procfs.CPUStat{User: 101, Nice: 12, System: 54, Idle: 832, Iowait: 46, IRQ: 10, SoftIRQ: 19, Steal: 26, Guest: 107, GuestNice: 11}
	if busy, ok := p.next(later); !ok || math.Abs(busy-52./100) > 1e-9 {
		t.Errorf("%v was used", busy)
	}
	if busy, ok := p.next(start); ok {
		t.Errorf("time went back, and %v was used", busy)
	}
}

// The machine's own numbers are understood.
func TestProcessorsHere(t *testing.T) {
	var p processors
	if _, ok := p.share(); ok {
		t.Error("a share of no time at all")
	}
	waitFor(t, "the processors' time to go on", func() bool {
		busy, ok := p.share()
		if busy < 0 || busy > 1 {
			t.Fatalf("%v of the machine was used", busy)
		}
		return ok
	})
}
