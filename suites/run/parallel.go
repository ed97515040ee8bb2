package run

import (
	"runtime"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/system"
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
