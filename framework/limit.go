package framework

import (
	"context"
	"time"
)

// Limiter is the ability of a node to have its kernel limit what its processes get,
// such as by a control group.
type Limiter interface {
	// LimitSupport says why the kernel cannot keep a limit here; nil where it
	// can.
	LimitSupport(l Limit) error
	// Limit puts components, or with none named all processes of the node,
	// under l until Unlimit or until ttl has passed, and returns a handle for it.
	// A component that starts meanwhile is under it too. Of several limits the
	// strictest counts.
	Limit(ctx context.Context, components []Component, l Limit, ttl time.Duration) (handle string, err error)
	// Unlimit ends a limit; it does nothing where it is gone.
	Unlimit(ctx context.Context, handle string) error
	// ReadLimit tells what the kernel makes of a limit.
	ReadLimit(ctx context.Context, handle string) (LimitReading, error)
}

// Limit is what processes get at most, all together. One of CPU and Memory is set.
type Limit struct {
	// CPU is the processor time, in percent of one processor.
	CPU float64 `json:"cpu,omitempty"`
	// Memory is the memory that they may take from then on, in bytes, the page
	// cache of what they read and write included. What they had before counts
	// only for processes that start later. Beyond it the kernel slows them down
	// or, where it is Hard, ends one.
	Memory int64 `json:"memory,omitempty"`
	Hard   bool  `json:"hard,omitempty"`
}

// LimitReading is what the kernel says about a limit.
type LimitReading struct {
	// InForce says that the limit has neither been ended nor has run out.
	InForce bool `json:"inForce"`
	// Left names what is there of limits that are in force no more.
	Left []string `json:"left,omitempty"`
	// Group is where the kernel keeps the limit. Inside are how many of the
	// processes that are to be under it are; Outside are the others, as the
	// provider numbers them.
	Group   string `json:"group,omitempty"`
	Inside  int    `json:"inside,omitempty"`
	Outside []int  `json:"outside,omitempty"`

	// CPU is the processor time that the kernel grants, in percent of one
	// processor. Of so many Periods in which the processes ran, they were
	// Throttled in some, for ThrottledFor.
	CPU          float64       `json:"cpu,omitempty"`
	Periods      uint64        `json:"periods,omitempty"`
	Throttled    uint64        `json:"throttled,omitempty"`
	ThrottledFor time.Duration `json:"throttledFor,omitempty"`

	// Memory is the limit in bytes, MemoryUsed what counts towards it now,
	// MemoryHits how often it was hit, and OOMKills how many processes the
	// kernel has ended for it.
	Memory     int64  `json:"memory,omitempty"`
	MemoryUsed int64  `json:"memoryUsed,omitempty"`
	MemoryHits uint64 `json:"memoryHits,omitempty"`
	OOMKills   uint64 `json:"oomKills,omitempty"`
}
