package framework

import (
	"context"
	"encoding/json"
	"time"
)

// Promiser is the ability of a cluster to undo, on its own side, a fault that none of its
// nodes was asked for: one that is done through etcd or the API. It does so even if the
// process that injected the fault was killed.
type Promiser interface {
	// Promise has the cluster's nodes carry out u when ttl has passed, unless Withdraw
	// comes before, and returns a handle. It is called before the fault begins.
	Promise(ctx context.Context, u Undoing, ttl time.Duration) (handle string, err error)
	// CheckPromise returns why the cluster would not promise it, whatever its data; nil
	// where it would.
	CheckPromise(u Undoing) error
	// Withdraw withdraws a promise; it does nothing if no promise has that handle.
	Withdraw(ctx context.Context, handle string) error
}

// Undoing is what undoes a fault. It can be repeated, by several nodes at once.
type Undoing struct {
	// Fault is the name of the fault, which carries it out (fault.Undo) with Data.
	Fault string          `json:"fault"`
	Data  json.RawMessage `json:"data"`
	// Node is the one node that can do it; empty for any.
	Node string `json:"node,omitempty"`
	// Lossy tells that data are lost for good, whatever is undone.
	Lossy bool `json:"lossy,omitempty"`
}

// Mortal is the ability of a cluster to end with the process that made it, however that
// ends: the kernel sees to it. Faults of that process end with it.
type Mortal interface {
	// EndsWithProcess does nothing.
	EndsWithProcess()
}
