package vnet

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Probe reports which backend Auto chooses in this process, and why.
type Probe struct {
	// Backend is TAP or Packet, and empty if neither works.
	Backend Backend
	// Reason is one sentence for people; except for TAP it says what is missing and how to
	// enable it.
	Reason string
}

// ProbeBackend returns which backend Attach would use, without creating a device. The result
// also applies in user namespaces of this user: they change neither access to /dev/net/tun nor
// what the kernel supports.
func ProbeBackend() Probe {
	fd, err := openTun()
	if err == nil {
		_ = unix.Close(fd)
		return Probe{Backend: TAP, Reason: tunPath + " opens and supports virtio-net headers"}
	}
	reason := fmt.Sprintf("%v; %s", err, remedy(err))
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	switch {
	case err == nil:
		_ = unix.Close(fd)
	case errors.Is(err, unix.EAFNOSUPPORT):
		return Probe{Reason: fmt.Sprintf("%s; and this kernel has no packet sockets (CONFIG_PACKET): %v", reason, err)}
	}
	// EPERM applies outside a user namespace; inside it the socket opens.
	return Probe{Backend: Packet, Reason: reason + "; veth pairs with packet sockets are used instead, which are about as fast"}
}

func remedy(err error) string {
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return "to use TAP, let this user read and write the device node (chmod 0666 " + tunPath + ", as most distributions have it)"
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return "to use TAP, load the tun module (modprobe tun), or give the container the device (--device " + tunPath + ")"
	default:
		return "TAP is not supported here"
	}
}
