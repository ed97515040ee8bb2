// Package vip keeps one address on one of several nodes, one whose API server is
// ready: the way of kube-vip and keepalived.
//
// A process on each node asks its own API server for /readyz. The holder tells the
// others at each interval that it holds the address, and all hosts of the network by
// gratuitous ARP where it is; it gives the address up when its API server fails the
// check. A node that stands by and is ready takes the address when the holder gives it
// up, or is silent for as many intervals as a check may fail; the order of the nodes
// spreads that over one interval more. A node that is back does not take the address
// back. Of two holders, as after a split network, the first in the order stays.
//
// It needs CAP_NET_ADMIN and CAP_NET_RAW in the node's network namespace. Its tests
// need a loopback; that of a real address needs a network namespace.
package vip
