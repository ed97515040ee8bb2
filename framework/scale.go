package framework

import "context"

// Scaler is the ability of a cluster to gain and to lose control-plane nodes while
// it runs. Nodes, Entrances and all that is found by a node's name follow; what
// others hold of a node that is gone answers with errors. No name and no address is
// given twice.
//
// Neither method leaves a thing half done that it can take back: an error says what
// is left where it could not.
type Scaler interface {
	// AddNode makes a node like the others and returns when its API server is ready,
	// its etcd member votes, and the load balancer sends clients to it. It is refused
	// where etcd refuses another member, as it does while one of them is down.
	AddNode(ctx context.Context) (Node, error)
	// RemoveNode takes a node out for good: first from the load balancer, then its
	// API server, controller manager and scheduler are ended gracefully, then its
	// etcd member is removed, having handed on its leadership, and last its machine.
	// One that is dead or without power can be removed too. It is refused where
	// too few etcd members would be left for a quorum.
	RemoveNode(ctx context.Context, name string) error
}
