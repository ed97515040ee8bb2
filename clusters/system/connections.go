package system

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/framework"
)

// Connections returns this network namespace's TCP connections to these addresses; see
// framework.ConnectionReporter.
func Connections(peers []netip.Addr) ([]framework.Connection, error) {
	found := []framework.Connection{}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		all, err := netlink.SocketDiagTCPInfo(family)
		if err != nil {
			return nil, fmt.Errorf("failed to ask the kernel for TCP connections (inet_diag): %w", err)
		}
		for _, s := range all {
			local, _ := netip.AddrFromSlice(s.InetDiagMsg.ID.Source)
			peer, _ := netip.AddrFromSlice(s.InetDiagMsg.ID.Destination)
			if !slices.Contains(peers, peer.Unmap()) {
				continue
			}
			c := framework.Connection{
				Local: netip.AddrPortFrom(local.Unmap(), s.InetDiagMsg.ID.SourcePort),
				Peer:  netip.AddrPortFrom(peer.Unmap(), s.InetDiagMsg.ID.DestinationPort),
			}
			if s.TCPInfo != nil && s.TCPInfo.State == unix.BPF_TCP_ESTABLISHED {
				c.Established, c.Stalled = true, s.TCPInfo.Retransmits > 0
			}
			found = append(found, c)
		}
	}
	return found, nil
}
