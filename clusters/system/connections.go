package system

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Stalled returns the peers of this network namespace's TCP connections on which the kernel has
// retransmitted without an answer and waits for the next attempt: the effect of a network cut.
// Each peer is listed once.
func Stalled() ([]netip.Addr, error) {
	peers := []netip.Addr{}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		all, err := netlink.SocketDiagTCPInfo(family)
		if err != nil {
			return nil, fmt.Errorf("asking the kernel for TCP connections (inet_diag): %w", err)
		}
		for _, s := range all {
			if s.TCPInfo == nil || s.TCPInfo.State != unix.BPF_TCP_ESTABLISHED || s.TCPInfo.Retransmits == 0 {
				continue
			}
			if peer, ok := netip.AddrFromSlice(s.InetDiagMsg.ID.Destination); ok && !slices.Contains(peers, peer.Unmap()) {
				peers = append(peers, peer.Unmap())
			}
		}
	}
	return peers, nil
}
