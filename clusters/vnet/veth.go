package vnet

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// packetBuffer is the size of a packet socket's receive buffer, in bytes of kernel memory. The
// kernel limits it to net.core.rmem_max.
const packetBuffer = 8 << 20

// vethSpace is the network namespace of the near ends of veth pairs. It has no addresses, so
// only the switch receives or answers there.
type vethSpace struct {
	mu   sync.Mutex
	ns   *os.File
	last int
}

// enter returns the namespace, made on first use, and the name of a new device.
func (v *vethSpace) enter() (ns *os.File, name string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ns == nil {
		if v.ns, err = newNetns(); err != nil {
			return nil, "", err
		}
	}
	v.last++
	return v.ns, fmt.Sprintf("port%d", v.last), nil
}

func (v *vethSpace) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	err := closeFile(v.ns)
	v.ns = nil
	return err
}

// newDevice makes a veth pair with one end in a port's namespace, and a packet
// socket on the other.
func (v *vethSpace) newDevice(c *PortConfig, ns *os.File) (device, error) {
	near, name, err := v.enter()
	if err != nil {
		return nil, err
	}
	fd := -1
	remove := func() error {
		return withNetlink(near, func(h *netlink.Handle) error { return deleteLink(h, name) })
	}
	err = withNetlink(near, func(h *netlink.Handle) (err error) {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = name, c.MTU
		pair := &netlink.Veth{
			LinkAttrs:        attrs,
			PeerName:         c.Device,
			PeerMTU:          uint32(c.MTU),
			PeerHardwareAddr: net.HardwareAddr(c.MAC),
			PeerNamespace:    netlink.NsFd(int(ns.Fd())),
		}
		if err := h.LinkAdd(pair); err != nil {
			return fmt.Errorf("failed to make veth pair with device %s: %w", c.Device, err)
		}
		link, err := h.LinkByName(name)
		if err != nil {
			return fmt.Errorf("failed to find near end of device %s: %w", c.Device, err)
		}
		// If the kernel has no IPv6, there is nothing to turn off.
		_ = h.LinkSetIP6AddrGenMode(link, 1) // IN6_ADDR_GEN_MODE_NONE
		if err := h.LinkSetARPOff(link); err != nil {
			return fmt.Errorf("failed to switch ARP off on near end of device %s: %w", c.Device, err)
		}
		if err := h.LinkSetUp(link); err != nil {
			return fmt.Errorf("failed to bring near end of device %s up: %w", c.Device, err)
		}
		// Not before: a socket on a device that is down starts with an error. Nothing is
		// missed, since the far end is still down.
		if fd, err = openPacketSocket(link.Attrs().Index); err != nil {
			return fmt.Errorf("near end of device %s: %w", c.Device, err)
		}
		return nil
	})
	if err == nil {
		err = withNetlink(ns, func(h *netlink.Handle) error { return configure(h, c) })
	}
	if err != nil {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		return nil, errors.Join(err, remove())
	}
	return &frameDevice{descriptor: fd, remove: remove}, nil
}

// deleteLink deletes a device that may not exist any more, with the namespace of its other end.
func deleteLink(h *netlink.Handle, name string) error {
	link, err := h.LinkByName(name)
	if err == nil {
		err = h.LinkDel(link)
	}
	if errors.As(err, new(netlink.LinkNotFoundError)) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("failed to delete veth device %s: %w", name, err)
	}
	return nil
}

// openPacketSocket opens a packet socket on a device of the calling thread's
// network namespace.
func openPacketSocket(index int) (fd int, err error) {
	// With protocol 0 it receives nothing before the socket is bound to its device.
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("failed to open packet socket (needs CAP_NET_RAW): %w", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
			fd = -1
		}
	}()
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		return fd, fmt.Errorf("failed to set PACKET_VNET_HDR on packet socket: %w", err)
	}
	// Right after its start the device has no queueing discipline yet.
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
		return fd, fmt.Errorf("failed to set PACKET_QDISC_BYPASS on packet socket: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
		return fd, fmt.Errorf("failed to set PACKET_IGNORE_OUTGOING on packet socket (needs Linux 4.20): %w", err)
	}
	for _, option := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF} {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, packetBuffer); err != nil {
			return fd, fmt.Errorf("failed to set buffer size of packet socket: %w", err)
		}
	}
	all := uint16(unix.ETH_P_ALL)
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all<<8 | all>>8, Ifindex: index}); err != nil {
		return fd, fmt.Errorf("failed to bind packet socket to device %d: %w", index, err)
	}
	return fd, nil
}
