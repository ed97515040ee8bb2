// Package benchnetwork compares the switch's faults with other ways to break a network, in one
// run: toxiproxy, as a library in this process, and nftables, through netlink. It is a separate
// module, so that nothing else depends on what it compares with.
//
//	make bench-network
//
// It needs user namespaces; a skipped part says what is missing.
package benchnetwork
