package framework

import (
	"context"
	"net/netip"
	"time"
)

// NetworkFaulter is the ability of a cluster to impair its network.
type NetworkFaulter interface {
	// Parties returns the names of all hosts on the network: the
	// control-plane nodes, "balancer", "workers" and "harness".
	Parties() []string
	// Impair puts imp on every given link until Restore or until ttl has passed, and returns a
	// handle.
	Impair(ctx context.Context, links []Link, imp Impairment, ttl time.Duration) (handle string, err error)
	// Restore removes an impairment; it does nothing if the impairment is gone.
	Restore(ctx context.Context, handle string) error
	// ImpairmentCounters returns what the impairment has done so far to each of its links, in the
	// order in which Impair received them. They can still be read after Restore, at least until
	// 64 others were restored.
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
	// Cut drops every packet silently.
	Cut bool `json:"cut,omitempty"`
	// Reset drops TCP segments and answers both ends with RST.
	Reset bool `json:"reset,omitempty"`
	// Established narrows the impairment to the TCP connections that existed when it started.
	Established bool `json:"established,omitempty"`
	// Delay is added to each packet, varied by Jitter: Distribution is
	// "uniform" (± Jitter; the same as empty), "normal" or "pareto" (standard
	// deviation Jitter).
	Delay        time.Duration `json:"delay,omitempty"`
	Jitter       time.Duration `json:"jitter,omitempty"`
	Distribution string        `json:"distribution,omitempty"`
	// Loss, Duplicate, Reorder and Corrupt are probabilities from 0 to 1. An impairment with Corrupt
	// acts on IP packets only: the checksums of others, such as ARP, do not show the damage.
	Loss      float64 `json:"loss,omitempty"`
	Duplicate float64 `json:"duplicate,omitempty"`
	Reorder   float64 `json:"reorder,omitempty"`
	Corrupt   float64 `json:"corrupt,omitempty"`
	// Rate limits the link, in bits per second; 0 means no limit.
	Rate int64 `json:"rate,omitempty"`
	// FlapOn and FlapOff make the impairment come and go for as long as it
	// lasts: active for FlapOn, then inactive for FlapOff. Both are 0
	// (always active) or at least 1 ms.
	FlapOn  time.Duration `json:"flapOn,omitempty"`
	FlapOff time.Duration `json:"flapOff,omitempty"`
}

// LinkCounters counts the packets of a link for one impairment.
type LinkCounters struct {
	// Matched counts the packets that arrived and that the impairment applies to.
	Matched uint64 `json:"matched"`
	// Passed counts those that left the link again, measured behind the impairment rather than
	// from what it claims. They are not counted for an impairment that flaps.
	Passed     uint64 `json:"passed,omitempty"`
	Dropped    uint64 `json:"dropped"`
	Delayed    uint64 `json:"delayed,omitempty"`
	Duplicated uint64 `json:"duplicated,omitempty"`
	Reordered  uint64 `json:"reordered,omitempty"`
	Corrupted  uint64 `json:"corrupted,omitempty"`
	// Resets are the segments with RST that were sent.
	Resets uint64 `json:"resets,omitempty"`
	// Bypassed counts how often another program was seen to have removed the impairment while it was
	// to be active: packets then passed without being counted.
	Bypassed uint64 `json:"bypassed,omitempty"`
	// Held is how many delayed packets were forwarded, HeldFor is how long all of them together
	// were held, as measured, and HeldBytes is their size on the wire.
	Held      uint64        `json:"held,omitempty"`
	HeldFor   time.Duration `json:"heldFor,omitempty"`
	HeldBytes uint64        `json:"heldBytes,omitempty"`
}

// Add returns the sums of the counters.
func (c LinkCounters) Add(o LinkCounters) LinkCounters {
	return LinkCounters{
		Matched: c.Matched + o.Matched, Passed: c.Passed + o.Passed, Dropped: c.Dropped + o.Dropped,
		Delayed: c.Delayed + o.Delayed, Duplicated: c.Duplicated + o.Duplicated, Reordered: c.Reordered + o.Reordered,
		Corrupted: c.Corrupted + o.Corrupted, Resets: c.Resets + o.Resets, Bypassed: c.Bypassed + o.Bypassed,
		Held: c.Held + o.Held, HeldFor: c.HeldFor + o.HeldFor, HeldBytes: c.HeldBytes + o.HeldBytes,
	}
}

// LinkReporter is the ability of a cluster to report the traffic on a link and its impairments.
type LinkReporter interface {
	// LinkState returns the state of the link between two parties now.
	LinkState(ctx context.Context, from, to string) (LinkState, error)
}

// LinkState is the state of one direction between two parties.
type LinkState struct {
	// Delivered packets reached the receiver, Dropped ones were lost for whatever reason, since
	// the cluster was created.
	Delivered uint64 `json:"delivered"`
	Dropped   uint64 `json:"dropped"`
	// Impairments are the handles of those on the link, even if on only some of its ports.
	Impairments []string `json:"impairments,omitempty"`
}

// ImpairmentChecker is the ability of a cluster to report in advance what Impair would refuse, if
// that depends on more than the provider: on the kernel, or the host.
type ImpairmentChecker interface {
	// CheckImpairment returns nil if imp can be put on the links. The error is
	// errors.ErrUnsupported if it never can.
	CheckImpairment(ctx context.Context, links []Link, imp Impairment) error
}

// LinkProber is the ability of a cluster to send packets along a link, so that a link without
// traffic of its own can be proven by its counters too.
type LinkProber interface {
	// ProbeLink has the sender's own network stack send this many packets (UDP, to one of the
	// link's ports) to the receiver. It does not wait for an answer. An error means that it is
	// not known whether they were sent.
	ProbeLink(ctx context.Context, l Link, packets int) error
}

// ConnectionReporter is the ability of a node to report its TCP connections.
type ConnectionReporter interface {
	// Connections returns the node's connections to these addresses that are not closed.
	Connections(ctx context.Context, peers []netip.Addr) ([]Connection, error)
}

// Connection is one end of a TCP connection.
type Connection struct {
	Local netip.AddrPort `json:"local"`
	Peer  netip.AddrPort `json:"peer"`
	// Established is the state of that name: this end neither opens nor closes it.
	Established bool `json:"established,omitempty"`
	// Stalled means that the kernel has retransmitted without success and waits for the next
	// retry. After a network cut this state lasts about as long again as the cut, since each wait
	// is twice the previous one (RFC 6298, 5.5).
	Stalled bool `json:"stalled,omitempty"`
}

// DNSFaulter is the ability of a cluster to have its DNS mislead hosts.
type DNSFaulter interface {
	// Names returns the names that the DNS serves.
	Names() []string
	// DisturbNames changes the DNS answers to these hosts until RestoreNames or until ttl has
	// passed, and returns a handle. Hosts are named as by NetworkFaulter.Parties.
	DisturbNames(ctx context.Context, hosts []string, d NameDisturbance, ttl time.Duration) (handle string, err error)
	// RestoreNames ends a disturbance; it does nothing if it has ended.
	RestoreNames(ctx context.Context, handle string) error
	// LookUp looks a name up on a host, as a program there would. A failed lookup is not an error
	// but part of the result.
	LookUp(ctx context.Context, host, name string) (Lookup, error)
}

// NameDisturbance is what happens to a host's DNS queries.
type NameDisturbance struct {
	// Names narrows it to queries for these names. Empty means any.
	Names []string `json:"names,omitempty"`
	// Silent leaves queries unanswered.
	Silent bool `json:"silent,omitempty"`
	// Delay delays answers.
	Delay time.Duration `json:"delay,omitempty"`
	// NotFound answers that the name does not exist.
	NotFound bool `json:"notFound,omitempty"`
	// Address is returned instead of the right one, if it is valid.
	Address netip.Addr `json:"address,omitzero"`
}

// Lookup is the result of looking up a name.
type Lookup struct {
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Problem says why there are no addresses.
	Problem string        `json:"problem,omitempty"`
	Took    time.Duration `json:"took"`
}
