package framework

import (
	"context"
	"errors"
	"time"
)

// The abilities below are found by assertion. Each one that changes the world
// takes a time to live: the provider undoes the change on the node's side when
// it runs out, whether or not the harness is still there.
//
// What is done to processes does not survive a loss of power: what would end it
// does nothing while the power is off.
//
// Those on a component belong to its Node, and to the Cluster for components
// that are on no control-plane node (LoadBalancer, Kwok).

// ErrNothingDone is what the error of an ability is, in the sense of errors.Is,
// that has changed nothing: what is asked for does not fit the state that it
// finds, such as the kill of what is held down already. Then there is nothing
// to undo, and what is there belongs to somebody else.
var ErrNothingDone = errors.New("nothing was done")

// Killer is the ability of a node to end a component without notice.
type Killer interface {
	// Kill sends SIGKILL. The node's process watcher leaves the component
	// down until Start or until hold has passed; hold 0 means that it
	// restarts it as it always does.
	Kill(ctx context.Context, c Component, hold time.Duration) error
}

// Stopper is the ability of a node to end a component gracefully.
type Stopper interface {
	// Stop sends SIGTERM, and SIGKILL after the provider's grace period, and
	// returns when the process has ended. As for Kill, the watcher leaves the
	// component down for hold, which counts from that end.
	Stop(ctx context.Context, c Component, hold time.Duration) error
}

// Starter is the ability of a node to start a component that is held down.
type Starter interface {
	// Start ends a hold and starts the component; it does nothing where the
	// component runs.
	Start(ctx context.Context, c Component) error
}

// Freezer is the ability of a node to suspend a component.
type Freezer interface {
	// Freeze sends SIGSTOP, and SIGCONT after ttl. It refuses a component that
	// is frozen already.
	Freeze(ctx context.Context, c Component, ttl time.Duration) error
	// Thaw sends SIGCONT; it does nothing where the component is not frozen.
	Thaw(ctx context.Context, c Component) error
}

// PowerSwitch is the ability of a node to lose power.
type PowerSwitch interface {
	// PowerOff pulls the plug: peers get neither FIN nor RST. Power comes
	// back after ttl.
	PowerOff(ctx context.Context, ttl time.Duration) error
	// PowerOn starts the machine with the disk it had; it does nothing where
	// the machine is on.
	PowerOn(ctx context.Context) error
	// Powered tells whether the machine is on.
	Powered(ctx context.Context) (bool, error)
}

// Pauser is the ability of a node to stand still as a whole.
type Pauser interface {
	// Pause suspends everything on the node, its process watcher and its agent
	// included, and has it go on after ttl. Connections stay, and nobody answers
	// on them. It refuses a node that is paused already, or has no power.
	Pause(ctx context.Context, ttl time.Duration) error
	// Resume has the node go on; it does nothing where it is not paused.
	Resume(ctx context.Context) error
	// Paused tells whether the node stands still.
	Paused(ctx context.Context) (bool, error)
}

// Zoner is the ability of a node to tell its fault domain.
type Zoner interface {
	// Zone returns the name of the node's fault domain.
	Zone() string
}

// NetworkFaulter is the ability of a cluster to impair its network.
type NetworkFaulter interface {
	// Parties returns the names of all hosts on the network: the
	// control-plane nodes, "balancer", "workers" and "harness".
	Parties() []string
	// Impair puts imp on every given link until Restore or until ttl has
	// passed, and returns a handle for it.
	Impair(ctx context.Context, links []Link, imp Impairment, ttl time.Duration) (handle string, err error)
	// Restore removes an impairment; it does nothing where it is gone.
	Restore(ctx context.Context, handle string) error
	// ImpairmentCounters returns what the impairment has done so far to each of its
	// links, in the order in which Impair was given them. They can still be read
	// after Restore, at least until 64 others were restored.
	ImpairmentCounters(ctx context.Context, handle string) ([]LinkCounters, error)
}

// Link is one direction between two parties.
type Link struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Ports narrows the link to TCP and UDP packets whose source or
	// destination port is one of these. Empty means every packet.
	Ports []uint16 `json:"ports,omitempty"`
}

// Impairment is what happens to the packets of a link.
type Impairment struct {
	// Cut drops every packet, without a word to the sender.
	Cut bool `json:"cut,omitempty"`
	// Reset drops TCP segments and answers both ends with RST.
	Reset bool `json:"reset,omitempty"`
	// Established narrows the impairment to the TCP connections that were
	// there when it began.
	Established bool `json:"established,omitempty"`
	// Delay is added to each packet, varied by Jitter: Distribution is
	// "uniform" (± Jitter; the same as empty), "normal" or "pareto" (standard
	// deviation Jitter).
	Delay        time.Duration `json:"delay,omitempty"`
	Jitter       time.Duration `json:"jitter,omitempty"`
	Distribution string        `json:"distribution,omitempty"`
	// Loss, Duplicate, Reorder and Corrupt are probabilities from 0 to 1.
	Loss      float64 `json:"loss,omitempty"`
	Duplicate float64 `json:"duplicate,omitempty"`
	Reorder   float64 `json:"reorder,omitempty"`
	Corrupt   float64 `json:"corrupt,omitempty"`
	// Rate limits the link, in bits per second; 0 means no limit.
	Rate int64 `json:"rate,omitempty"`
	// FlapOn and FlapOff make the impairment come and go for as long as it
	// lasts: in force for FlapOn, then out of force for FlapOff. Both are 0
	// (always in force) or at least 1 ms.
	FlapOn  time.Duration `json:"flapOn,omitempty"`
	FlapOff time.Duration `json:"flapOff,omitempty"`
}

// LinkCounters counts the packets of a link for one impairment.
type LinkCounters struct {
	// Matched packets came, and the impairment is about them.
	Matched uint64 `json:"matched"`
	// Passed are those that left the link again, counted behind the impairment and
	// not by what it made of them. Of one that flaps they are not counted.
	Passed     uint64 `json:"passed,omitempty"`
	Dropped    uint64 `json:"dropped"`
	Delayed    uint64 `json:"delayed,omitempty"`
	Duplicated uint64 `json:"duplicated,omitempty"`
	Reordered  uint64 `json:"reordered,omitempty"`
	Corrupted  uint64 `json:"corrupted,omitempty"`
	// Resets are the segments with RST that were sent.
	Resets uint64 `json:"resets,omitempty"`
	// Held of the delayed packets have gone on, and HeldFor is how long all of
	// them together were held, as measured. HeldBytes is their size on the wire.
	Held      uint64        `json:"held,omitempty"`
	HeldFor   time.Duration `json:"heldFor,omitempty"`
	HeldBytes uint64        `json:"heldBytes,omitempty"`
}

// Add returns the sums of the counters.
func (c LinkCounters) Add(o LinkCounters) LinkCounters {
	return LinkCounters{
		Matched: c.Matched + o.Matched, Passed: c.Passed + o.Passed, Dropped: c.Dropped + o.Dropped,
		Delayed: c.Delayed + o.Delayed, Duplicated: c.Duplicated + o.Duplicated, Reordered: c.Reordered + o.Reordered,
		Corrupted: c.Corrupted + o.Corrupted, Resets: c.Resets + o.Resets,
		Held: c.Held + o.Held, HeldFor: c.HeldFor + o.HeldFor, HeldBytes: c.HeldBytes + o.HeldBytes,
	}
}
