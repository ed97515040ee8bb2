package system

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/holdfast-ha/holdfast/framework"
)

// discard is the port of the discard protocol (RFC 863).
const discard = 9

// ProbeTarget returns the destination of a framework.LinkProber's packets along a link to a
// receiver of this address.
func ProbeTarget(receiver netip.Addr, l framework.Link) netip.AddrPort {
	if len(l.Ports) > 0 {
		return netip.AddrPortFrom(receiver, l.Ports[0])
	}
	return netip.AddrPortFrom(receiver, discard)
}

// SendProbes sends packets from this process, for implementations of framework.LinkProber.
func SendProbes(to netip.AddrPort, packets int) error {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return fmt.Errorf("failed to send packets to %s: %w", to, err)
	}
	defer conn.Close()
	for n := range packets {
		// A receiver whose port is closed answers with an error, which a later write returns.
		if _, err := conn.Write([]byte("holdfast link probe")); err != nil && n == 0 {
			return fmt.Errorf("failed to send packets to %s: %w", to, err)
		}
	}
	return nil
}
