package framework

import (
	"context"
	"net/netip"
)

// ConnectionReporter is the ability of a node to tell of its TCP connections.
type ConnectionReporter interface {
	// Stalled returns the peers of connections on which the node's kernel sent
	// something again, in vain so far, and waits for the next time. After a network cut
	// of some duration that lasts about as long again, since each wait is twice the one
	// before (RFC 6298, 5.5).
	Stalled(ctx context.Context) ([]netip.Addr, error)
}
