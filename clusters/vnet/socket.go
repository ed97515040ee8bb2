package vnet

import (
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// socketDevice carries plain frames, one per message. It does in software what the other ports
// leave to a network card.
type socketDevice struct {
	descriptor int
	stream     bool // the socket reports EOF (SOCK_SEQPACKET)
}

func newSocketDevice(f *os.File) (device, error) {
	copied, err := duplicate(f)
	if err != nil {
		return nil, err
	}
	defer copied.Close()
	fd, err := unix.FcntlInt(copied.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("failed to duplicate a socket: %w", err)
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err == nil && kind != unix.SOCK_DGRAM && kind != unix.SOCK_SEQPACKET {
		err = fmt.Errorf("socket type %d does not keep message boundaries, want SOCK_DGRAM or SOCK_SEQPACKET", kind)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("failed to use a socket as a port: %w", err)
	}
	return &socketDevice{descriptor: fd, stream: kind == unix.SOCK_SEQPACKET}, nil
}

func (d *socketDevice) fd() int { return d.descriptor }

func (d *socketDevice) read(buf []byte) (int, error) {
	n, _, err := unix.Recvfrom(d.descriptor, buf[headerLen:], unix.MSG_DONTWAIT)
	if err != nil {
		return 0, err
	}
	if n == 0 && d.stream {
		return 0, io.EOF
	}
	clear(buf[:headerLen])
	return headerLen + n, nil
}

func (d *socketDevice) write(buf []byte) bool {
	h := decodeHeader(buf)
	if seg, ok := segmentationOf(h, buf[headerLen:]); ok {
		all := true
		seg.segments(buf[headerLen:], nil, func(one []byte) {
			all = completeChecksum(one) && d.send(one) && all
		})
		return all
	}
	if h.flags&unix.VIRTIO_NET_HDR_F_NEEDS_CSUM != 0 {
		buf = slices.Clone(buf)
		if !completeChecksum(buf) {
			return false
		}
	}
	return d.send(buf)
}

func (d *socketDevice) send(buf []byte) bool {
	return unix.Send(d.descriptor, buf[headerLen:], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) == nil
}

func (d *socketDevice) close() error { return unix.Close(d.descriptor) }
