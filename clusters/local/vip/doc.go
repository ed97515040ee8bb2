// Package vip keeps one virtual address on one of several nodes, one whose API server is ready,
// like kube-vip and keepalived.
//
// A process on each node requests /readyz from its own API server. At each interval the holder
// announces to the others that it holds the address, and to all hosts of the network its
// location by gratuitous ARP; it releases the address when its API server fails the check. A
// ready standby node takes the address when the holder releases it, or is silent for as many
// intervals as a check may fail; the order of the nodes spreads that over one more interval. A
// node that comes back does not take the address back. If two nodes hold the address, for
// example after a network partition, the first in the order keeps it.
//
// It needs CAP_NET_ADMIN and CAP_NET_RAW in the node's network namespace. Its tests need a
// loopback; the one with a real address needs a network namespace.
package vip
