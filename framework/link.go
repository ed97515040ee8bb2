package framework

import "context"

// LinkReporter is the ability of a cluster to tell what passes on a link, and
// what is in its way.
type LinkReporter interface {
	// LinkState returns the state of the link between two parties now.
	LinkState(ctx context.Context, from, to string) (LinkState, error)
}

// LinkState is the state of one direction between two parties.
type LinkState struct {
	// Delivered packets were handed to the receiver, Dropped ones went lost for
	// whatever reason, since the cluster was made.
	Delivered uint64 `json:"delivered"`
	Dropped   uint64 `json:"dropped"`
	// Impairments are the handles of those that are on the link, on however
	// few of its ports.
	Impairments []string `json:"impairments,omitempty"`
}

// ImpairmentChecker is the ability of a cluster to tell beforehand what Impair would
// refuse, where that depends on more than the provider: on the kernel, or the host.
type ImpairmentChecker interface {
	// CheckImpairment returns nil where imp can be put on the links. The error is
	// errors.ErrUnsupported where it never can.
	CheckImpairment(ctx context.Context, links []Link, imp Impairment) error
}

// LinkProber is the ability of a cluster to send packets along a link. What is proven of
// a link by its counters is proven then of one that carries nothing by itself, too.
type LinkProber interface {
	// ProbeLink has the sender's own network stack send this many packets (UDP, to one
	// of the link's ports) to the receiver. It waits for no answer. An error means that
	// it is not known whether they were sent.
	ProbeLink(ctx context.Context, l Link, packets int) error
}
