package vnet

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// openNetns opens the network namespace of a port. The caller closes it.
func openNetns(c *PortConfig) (*os.File, error) {
	if c.NetnsFile != nil {
		return duplicate(c.NetnsFile)
	}
	if c.Netns != "" {
		f, err := os.Open(c.Netns)
		if err != nil {
			return nil, fmt.Errorf("failed to open network namespace: %w", err)
		}
		return f, nil
	}
	return ownNetns()
}

// ownNetns opens the network namespace of the calling thread.
func ownNetns() (*os.File, error) {
	f, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("failed to open own network namespace: %w", err)
	}
	return f, nil
}

// duplicate copies a descriptor without File.Fd, which would make it blocking
// for its other users.
func duplicate(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("failed to duplicate the descriptor of %s: %w", f.Name(), err)
	}
	fd, dupErr := -1, error(nil)
	err = raw.Control(func(old uintptr) { fd, dupErr = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	if err := errors.Join(err, dupErr); err != nil {
		return nil, fmt.Errorf("failed to duplicate the descriptor of %s: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// inNetns runs do on a thread that is in a network namespace.
func inNetns(ns *os.File, do func() error) error {
	return onThread(func() error {
		// This file is not shared, so making it blocking does no harm.
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("failed to enter network namespace %s (needs CAP_SYS_ADMIN over it): %w", ns.Name(), err)
		}
		return do()
	})
}

// onThread runs do on a thread of its own, whose network namespace do may change. The thread is
// reused only if its namespace could be restored.
func onThread(do func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		own, err := ownNetns()
		if err != nil {
			runtime.UnlockOSThread()
			result <- err
			return
		}
		defer own.Close()
		err = do()
		if unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}

// newNetns makes an empty network namespace that lives until its file is closed.
func newNetns() (ns *os.File, err error) {
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("failed to make network namespace (needs CAP_SYS_ADMIN): %w", err)
		}
		ns, err = ownNetns()
		return err
	})
	return ns, err
}

// configure sets a port's device up, in its namespace.
func configure(h *netlink.Handle, c *PortConfig) error {
	dev, err := h.LinkByName(c.Device)
	if err != nil {
		return fmt.Errorf("failed to find device %s: %w", c.Device, err)
	}
	if err := h.LinkSetHardwareAddr(dev, net.HardwareAddr(c.MAC)); err != nil {
		return fmt.Errorf("failed to set address %s of device %s: %w", c.MAC, c.Device, err)
	}
	if err := h.LinkSetMTU(dev, c.MTU); err != nil {
		return fmt.Errorf("failed to set MTU %d of device %s: %w", c.MTU, c.Device, err)
	}
	for _, prefix := range c.Addrs {
		addr := &netlink.Addr{IPNet: &net.IPNet{
			IP:   prefix.Addr().AsSlice(),
			Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()),
		}}
		if prefix.Addr().Is6() {
			// Without this the address could not be used for a second.
			addr.Flags = unix.IFA_F_NODAD
		}
		if err := h.AddrAdd(dev, addr); err != nil {
			return fmt.Errorf("failed to set address %s on device %s: %w", prefix, c.Device, err)
		}
	}
	lo, err := h.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("failed to find device lo: %w", err)
	}
	for _, link := range []netlink.Link{lo, dev} {
		if err := h.LinkSetUp(link); err != nil {
			return fmt.Errorf("failed to bring device %s up: %w", link.Attrs().Name, err)
		}
	}
	return nil
}

// withNetlink runs do with a netlink socket of a network namespace.
func withNetlink(ns *os.File, do func(*netlink.Handle) error) error {
	return inNetns(ns, func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("failed to open netlink socket: %w", err)
		}
		defer h.Close()
		return do(h)
	})
}
