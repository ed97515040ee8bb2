package vip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Card is a network device that takes the address.
type Card struct {
	link    netlink.Link
	addr    netip.Addr
	netlink *netlink.Addr
	socket  int // for frames
}

// NewCard returns the card of a network device, by its name, for an address of IPv4. It
// needs CAP_NET_ADMIN and CAP_NET_RAW.
func NewCard(device string, addr netip.Addr) (*Card, error) {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return nil, fmt.Errorf("failed to find device %s for the virtual IP: %w", device, err)
	}
	if !addr.Is4() {
		return nil, fmt.Errorf("the virtual IP is %s: want an IPv4 address, which ARP requires", addr)
	}
	// ARP frames are sent, none is received.
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("failed to open a socket for ARP (needs CAP_NET_RAW): %w", err)
	}
	alone := &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(32, 32)}
	return &Card{link: link, addr: addr, netlink: &netlink.Addr{IPNet: alone}, socket: socket}, nil
}

// Close lets go of the device. The address stays where it is.
func (c *Card) Close() { _ = unix.Close(c.socket) }

// Take gives the device the address, if it does not have it.
func (c *Card) Take() error {
	if err := netlink.AddrAdd(c.link, c.netlink); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("failed to take %s: %w", c.addr, err)
	}
	return nil
}

// Drop takes the address from the device, if it has it.
func (c *Card) Drop() error {
	if err := netlink.AddrDel(c.link, c.netlink); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("failed to release %s: %w", c.addr, err)
	}
	return nil
}

// Announce broadcasts an ARP announcement of the address (RFC 5227, section 3).
func (c *Card) Announce() error {
	to := &unix.SockaddrLinklayer{Protocol: 0x0608, Ifindex: c.link.Attrs().Index, Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255}}
	if err := unix.Sendto(c.socket, announcement(c.link.Attrs().HardwareAddr, c.addr), 0, to); err != nil {
		return fmt.Errorf("failed to announce %s: %w", c.addr, err)
	}
	return nil
}

// announcement is a gratuitous ARP request: from addr, for addr.
func announcement(from net.HardwareAddr, addr netip.Addr) []byte {
	frame := append([]byte{255, 255, 255, 255, 255, 255}, from...)
	for _, n := range []uint16{unix.ETH_P_ARP, 1, unix.ETH_P_IP} { // of Ethernet, for IPv4
		frame = binary.BigEndian.AppendUint16(frame, n)
	}
	frame = append(frame, 6, 4)
	frame = binary.BigEndian.AppendUint16(frame, 1)
	frame = append(append(frame, from...), addr.AsSlice()...)
	return append(append(frame, make([]byte, 6)...), addr.AsSlice()...)
}
