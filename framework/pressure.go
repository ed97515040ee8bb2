package framework

import (
	"context"
	"time"
)

// Presser is the ability of a node to run short of processor time or memory.
type Presser interface {
	// Press starts a process on the node that takes what p says until it is
	// relieved or until ttl has passed, and returns a handle for it. Several
	// add up.
	Press(ctx context.Context, p Pressure, ttl time.Duration) (handle string, err error)
	// Relieve ends a load process; it does nothing where it is gone.
	Relieve(ctx context.Context, handle string) error
	// Load tells what a load process has taken so far, as the kernel counts
	// it; its PID is 0 where there is no such process.
	Load(ctx context.Context, handle string) (Load, error)
}

// HostPresser is the ability of a cluster to do the same to hosts that are no
// control-plane nodes.
type HostPresser interface {
	// PresserOf returns the ability of a host: BalancerHost or WorkersHost.
	PresserOf(host string) (Presser, error)
}

// Pressure is what a load process takes.
type Pressure struct {
	// Loops is the number of busy loops, each of which would keep one
	// processor busy. EveryProcessor stands for as many as there are.
	Loops int `json:"loops,omitempty"`
	// Memory is the number of bytes that it keeps resident.
	Memory int64 `json:"memory,omitempty"`
	// Within is the handle of a limit that the process is to be under, as
	// those are that it was put on; see Limiter. Empty for none.
	Within string `json:"within,omitempty"`
}

// EveryProcessor is one busy loop for each of the node's processors.
const EveryProcessor = -1

// Load is what a load process takes.
type Load struct {
	// PID and StartTicks name the process, as those of Process do.
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"startTicks,omitempty"`
	// CPUTime is the processor time that it has consumed.
	CPUTime time.Duration `json:"cpuTime"`
	// Anonymous is how many bytes of memory that no file backs are resident.
	Anonymous int64 `json:"anonymous"`
	// OOMScoreAdj says how gladly the kernel ends it when memory runs out:
	// 1000 is before all others.
	OOMScoreAdj int `json:"oomScoreAdj"`
}
