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

// card is a network device that takes the address.
type card struct {
	link    netlink.Link
	addr    netip.Addr
	netlink *netlink.Addr
	socket  int // for frames
}

func newCard(device string, addr netip.Addr) (*card, error) {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return nil, fmt.Errorf("finding device %s for the address that moves: %w", device, err)
	}
	if !addr.Is4() {
		return nil, fmt.Errorf("the address that moves is %s: want one of IPv4, which ARP is for", addr)
	}
	// ARP frames are sent, none is received.
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a socket for ARP (needs CAP_NET_RAW): %w", err)
	}
	alone := &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(32, 32)}
	return &card{link: link, addr: addr, netlink: &netlink.Addr{IPNet: alone}, socket: socket}, nil
}

func (c *card) close() { _ = unix.Close(c.socket) }

func (c *card) take() error {
	if err := netlink.AddrAdd(c.link, c.netlink); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("taking %s: %w", c.addr, err)
	}
	return nil
}

func (c *card) drop() error {
	if err := netlink.AddrDel(c.link, c.netlink); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("giving %s up: %w", c.addr, err)
	}
	return nil
}

// announce tells every host of the network where the address is (RFC 5227, section 3).
func (c *card) announce() error {
	to := &unix.SockaddrLinklayer{Protocol: 0x0608, Ifindex: c.link.Attrs().Index, Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255}}
	if err := unix.Sendto(c.socket, announcement(c.link.Attrs().HardwareAddr, c.addr), 0, to); err != nil {
		return fmt.Errorf("announcing %s: %w", c.addr, err)
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
