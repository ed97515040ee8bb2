// Package benchnetwork measures the switch's faults side by side with other
// ways to break a network, in one run: toxiproxy, as a library in this process,
// and nftables, through netlink. It is a module of its own, so that nothing else
// depends on what it compares with.
//
//	make bench-network
//
// It needs user namespaces; each part says what it lacks where it is skipped.
package benchnetwork
