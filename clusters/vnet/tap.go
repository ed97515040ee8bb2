package vnet

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const tunPath = "/dev/net/tun"

// errNoTAP marks errors after which the packet backend may work.
var errNoTAP = errors.New("TAP devices are not available")

// frameDevice is a descriptor that reads and writes whole frames with their
// virtio-net headers: a TAP device or a packet socket.
type frameDevice struct {
	descriptor int
	remove     func() error // cleanup after closing it, or nil
}

func (d *frameDevice) fd() int { return d.descriptor }

// read and write do not block, so they do not notify the scheduler of the system call, which
// takes longer than the call.
func (d *frameDevice) read(buf []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(d.descriptor), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func (d *frameDevice) write(buf []byte) bool {
	_, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(d.descriptor), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)))
	return errno == 0
}

func (d *frameDevice) close() error {
	err := unix.Close(d.descriptor)
	if d.remove != nil {
		err = errors.Join(err, d.remove())
	}
	return err
}

// openTun opens the device from which TAP devices are created, in the network namespace of the
// calling thread.
func openTun() (int, error) {
	fd, err := unix.Open(tunPath, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("%w: failed to open %s: %w", errNoTAP, tunPath, err)
	}
	var features uint32
	if err := ioctl(fd, unix.TUNGETFEATURES, unsafe.Pointer(&features)); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("%w: failed to ask %s for its features: %w", errNoTAP, tunPath, err)
	}
	if features&unix.IFF_VNET_HDR == 0 {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("%w: %s does not support virtio-net headers", errNoTAP, tunPath)
	}
	return fd, nil
}

// newTAP makes a TAP device in a network namespace.
func newTAP(c *PortConfig, ns *os.File) (device, error) {
	fd := -1
	err := withNetlink(ns, func(h *netlink.Handle) (err error) {
		if fd, err = openTun(); err != nil {
			return err
		}
		request, err := unix.NewIfreq(c.Device)
		if err != nil {
			return fmt.Errorf("device name %q: %w", c.Device, err)
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			err = fmt.Errorf("failed to make TAP device %s: %w", c.Device, err)
			if errors.Is(err, unix.EPERM) {
				err = fmt.Errorf("%w: %w (needs CAP_NET_ADMIN over the namespace)", errNoTAP, err)
			}
			return err
		}
		size := int32(headerLen)
		if err := ioctl(fd, unix.TUNSETVNETHDRSZ, unsafe.Pointer(&size)); err != nil {
			return fmt.Errorf("failed to set virtio-net header size of TAP device %s: %w", c.Device, err)
		}
		const offload = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
		if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offload); err != nil {
			return fmt.Errorf("failed to switch offload of TAP device %s on: %w", c.Device, err)
		}
		return configure(h, c)
	})
	if err != nil {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		return nil, err
	}
	return &frameDevice{descriptor: fd}, nil
}

func ioctl(fd int, request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}
