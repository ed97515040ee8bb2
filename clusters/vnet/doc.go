// Package vnet is a learning Ethernet switch in user space that joins network
// namespaces, with faults on every directed link. It stands alone: nothing of
// the rest of the module is needed to use it.
//
//	s := vnet.New(vnet.Config{Seed: 1})
//	defer s.Close()
//	a, err := s.Attach(vnet.PortConfig{Name: "node-1", Netns: "/proc/4711/ns/net",
//		Addrs: []netip.Prefix{netip.MustParsePrefix("10.77.0.11/24")}})
//	...
//	cut, err := s.Impair(vnet.Rule{
//		Links:      []vnet.Link{{From: "node-1", To: "node-2"}},
//		Impairment: vnet.Impairment{Cut: true},
//	})
//	...
//	s.Remove(cut)
//
// # Ports
//
// A port is a network device in a namespace. It is a TAP device with a
// virtio-net header, so that TCP segments of up to 64 KiB and unfinished
// checksums pass through in one piece. Where /dev/net/tun cannot be opened, a
// veth pair with an AF_PACKET socket does the same; its near end is kept in a
// network namespace of the switch's own, where no protocol can answer on it
// and which the kernel removes with the last descriptor. ProbeBackend reports
// which of the two this process would use, and why. A port can also be a
// datagram socket that carries plain Ethernet frames, as virtual machines use.
//
// # Links and impairments
//
// A link is one direction between two ports; it keeps its impairments and
// counters when a port is closed and attached again under the same name. Rules
// on one link add up: delays sum, a packet passes only if every rule lets it,
// and any rule can be removed at any time. A rule takes hold of all its links
// in one step, before Impair returns. An impairment other than a cut or a
// delay acts on single packets as a wire would carry them: large TCP segments
// are cut up in software first.
//
// # How it runs
//
// One goroutine moves all packets. It sleeps in epoll_wait, woken by frames and by
// one timer for delayed packets; idle it costs nothing. A full receiver never
// holds up the others: its packet is dropped and counted.
//
// The loop needs a processor of the Go scheduler when a packet arrives. A
// program that computes on all of them delays its network until the scheduler
// preempts one: with two busy goroutines on two cores the 99th percentile of a
// TCP round trip was 33 ms at GOMAXPROCS 2 and 0.2 ms at 4. So programs that do
// more than switch set GOMAXPROCS some above the number of cores, early in main.
//
// # Privileges
//
// Attach needs CAP_NET_ADMIN and CAP_SYS_ADMIN over the namespaces that it
// joins. In a user namespace of its own an ordinary user has both. The tests
// make such namespaces themselves, as root and as an ordinary user:
//
//	go test ./clusters/vnet
//	go test -run '^$' -bench . ./clusters/vnet   # ratios to veth and kernel bridge
package vnet
