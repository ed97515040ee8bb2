package run

import (
	"runtime"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// What a cluster takes while it has traffic.
const (
	nodeMemory = 550 << 20 // bytes, each control-plane node with its share of the rest
	nodeCores  = 0.28      // likewise
	// coresToSpare keeps clusters out of each other's way: three of them on two cores
	// leave no time idle, and what is measured then proves nothing.
	coresToSpare = 0.3
	// spareMemory is left to holdfast itself and to others.
	spareMemory = 1 << 30
)

// Parallel returns how many clusters like this one this machine can bear at a time.
func Parallel(p clusters.Provider, c *clusters.Cluster) int {
	memory, _ := system.FreeMemory() // 0 is not known
	machines := len(c.Spec.Nodes)
	if s, ok := p.(clusters.Sizer); ok {
		machines = s.Machines(c)
	}
	return parallel(runtime.GOMAXPROCS(0), memory, machines)
}

// parallel is how many clusters of that many nodes at a time a machine with that many
// cores and so much memory to spare, in bytes, can be expected to bear; 0 bytes stand for
// not known.
func parallel(cores int, memory uint64, nodes int) int {
	n := int((float64(cores) - coresToSpare) / (float64(nodes) * nodeCores))
	if memory > 0 {
		n = min(n, int(int64(memory-min(memory, spareMemory))/int64(nodes*nodeMemory)))
	}
	return max(n, 1)
}
