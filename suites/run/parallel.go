package run

import (
	"context"
	"runtime"
	"sync"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework/judge"
)

// Resources that a cluster uses while it has traffic.
const (
	nodeMemory = 550 << 20 // bytes, each control-plane node with its share of the rest
	nodeCores  = 0.28      // likewise
	// coresToSpare keeps clusters from disturbing each other: three of them on two cores leave no
	// idle time, and measurements then prove nothing.
	coresToSpare = 0.3
	// spareMemory is left for holdfast itself and other programs.
	spareMemory = 1 << 30
)

// Parallel returns how many clusters like this one the machine can run at a time.
func Parallel(p clusters.Provider, c *clusters.Cluster) int {
	memory, _ := system.FreeMemory() // 0 means unknown
	machines := len(c.Spec.Nodes)
	if s, ok := p.(clusters.Sizer); ok {
		machines = s.Machines(c)
	}
	return parallel(runtime.GOMAXPROCS(0), memory, machines)
}

// parallel returns how many clusters of that many nodes a machine with that many cores and that
// much free memory, in bytes, can be expected to run at a time; 0 bytes means unknown.
func parallel(cores int, memory uint64, nodes int) int {
	n := int((float64(cores) - coresToSpare) / (float64(nodes) * nodeCores))
	if memory > 0 {
		n = min(n, int(int64(memory-min(memory, spareMemory))/int64(nodes*nodeMemory)))
	}
	return max(n, 1)
}

// turns lets a number of parts run scenarios at a time, and fewer once the machine turns out to
// be too slow for as many.
type turns struct {
	free chan struct{}

	mu               sync.Mutex
	parallel         int
	settled, starved int // scenarios since parallel last changed
}

func newTurns(parallel int) *turns {
	t := &turns{free: make(chan struct{}, parallel), parallel: parallel}
	for range parallel {
		t.free <- struct{}{}
	}
	return t
}

// take waits until another scenario may run. It returns false if ctx ends first.
func (t *turns) take(ctx context.Context) bool {
	select {
	case <-t.free:
		return true
	case <-ctx.Done():
		return false
	}
}

// give ends a turn with what came of its scenario, and reports how many are left if that is one
// less than before: two scenarios, and a quarter of all, lost verdicts to an overloaded machine.
// Repeating so many takes longer than running all one after the other.
func (t *turns) give(results []judge.Result) (left int, fewer bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settled++
	if len(Starved(results)) > 0 {
		t.starved++
	}
	if t.parallel > 1 && t.starved >= 2 && 4*t.starved >= t.settled {
		t.parallel, t.settled, t.starved = t.parallel-1, 0, 0
		return t.parallel, true
	}
	t.free <- struct{}{}
	return t.parallel, false
}
