package agent

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/vnet"
)

// The kernel sends RST only to the sender of a segment. So the agent reads the headers of the
// segments that it resets (nfnetlink_log) and sends an RST to the receiver. If the kernel
// cannot report them, an RST reaches the receiver as soon as it sends something itself.

// resetter sends RST to receivers that have not sent anything.
type resetter struct {
	log        *netlink.Conn // nil if the kernel cannot report segments
	ipv4, ipv6 int           // raw sockets

	mu   sync.Mutex
	sent map[string]uint64 // by handle
}

// resetGroup is the group of messages from nfnetlink_log.
const resetGroup = 0x6864

// headerRoom is the size of the part of a packet with all of its headers.
const headerRoom = 192

// From linux/netfilter/nfnetlink_log.h.
const (
	nfulPacket = 0 // NFULNL_MSG_PACKET
	nfulConfig = 1 // NFULNL_MSG_CONFIG

	nfulaPayload = 9
	nfulaPrefix  = 10

	nfulaConfigCommand   = 1
	nfulaConfigMode      = 2
	nfulaConfigThreshold = 5

	nfulBind       = 1
	nfulCopyPacket = 2
)

// newResetter returns a resetter that does nothing until it is started.
func newResetter() *resetter { return &resetter{ipv4: -1, ipv6: -1, sent: map[string]uint64{}} }

// start makes it send, if the kernel can report segments.
func (r *resetter) start() {
	if err := r.open(); err != nil {
		complain(fmt.Errorf("receivers of reset segments will receive RST only when they send: %w", err))
		r.close()
	}
}

func (r *resetter) open() (err error) {
	if r.ipv4, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW); err != nil {
		return os.NewSyscallError("socket", err)
	}
	// If the kernel has no IPv6, there is nothing to send over it.
	r.ipv6, _ = unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if r.log, err = netlink.Dial(unix.NETLINK_NETFILTER, nil); err != nil {
		return err
	}
	mode := append(binary.BigEndian.AppendUint32(nil, headerRoom), nfulCopyPacket, 0)
	for _, a := range []netlink.Attribute{
		{Type: nfulaConfigCommand, Data: []byte{nfulBind}},
		{Type: nfulaConfigMode, Data: mode},
		{Type: nfulaConfigThreshold, Data: binary.BigEndian.AppendUint32(nil, 1)}, // immediately
	} {
		b, err := netlink.MarshalAttributes([]netlink.Attribute{a})
		if err != nil {
			return err
		}
		_, err = r.log.Execute(netlink.Message{
			Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_ULOG<<8 | nfulConfig), Flags: netlink.Request | netlink.Acknowledge},
			Data:   append([]byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, resetGroup >> 8, resetGroup & 0xff}, b...),
		})
		if err != nil {
			return fmt.Errorf("failed to ask nfnetlink_log: %w", err)
		}
	}
	go r.run(r.log)
	return nil
}

// run sends an RST for each packet that the kernel reports.
func (r *resetter) run(log *netlink.Conn) {
	for {
		messages, err := log.Receive()
		if err != nil {
			if isOverrun(err) {
				continue // too many messages; their connections send again
			}
			return
		}
		for _, m := range messages {
			if m.Header.Type != netlink.HeaderType(unix.NFNL_SUBSYS_ULOG<<8|nfulPacket) || len(m.Data) < 4 {
				continue
			}
			attributes, err := netlink.UnmarshalAttributes(m.Data[4:])
			if err != nil {
				continue
			}
			var handle string
			var packet []byte
			for _, a := range attributes {
				switch a.Type {
				case nfulaPrefix:
					handle = strings.TrimRight(string(a.Data), "\x00")
				case nfulaPayload:
					packet = a.Data
				}
			}
			r.reset(handle, packet)
		}
	}
}

func isOverrun(err error) bool { return strings.Contains(err.Error(), unix.ENOBUFS.Error()) }

// reset ends the connection of a segment at its receiver.
func (r *resetter) reset(handle string, packet []byte) {
	out := vnet.ResetReceiver(packet)
	if out == nil {
		return
	}
	var err error
	if out[0]>>4 == 4 {
		to := &unix.SockaddrInet4{Addr: [4]byte(out[16:20])}
		err = unix.Sendto(r.ipv4, out, 0, to)
	} else {
		to := &unix.SockaddrInet6{Addr: [16]byte(out[24:40])}
		err = unix.Sendto(r.ipv6, out, 0, to)
	}
	if err == nil {
		r.mu.Lock()
		r.sent[handle]++
		r.mu.Unlock()
	}
}

// tell returns the expressions that make a rule report its packets.
func (r *resetter) tell(handle string) []expr.Any {
	if r.log == nil {
		return nil
	}
	return []expr.Any{&expr.Log{Group: resetGroup, Snaplen: headerRoom, QThreshold: 1, Data: []byte(handle),
		Key: 1<<unix.NFTA_LOG_GROUP | 1<<unix.NFTA_LOG_SNAPLEN | 1<<unix.NFTA_LOG_QTHRESHOLD | 1<<unix.NFTA_LOG_PREFIX}}
}

// count returns how many RSTs were sent for an impairment.
func (r *resetter) count(handle string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent[handle]
}

// forget returns the final count.
func (r *resetter) forget(handle string) uint64 {
	n := r.count(handle)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sent, handle)
	return n
}

func (r *resetter) close() {
	if r.log != nil {
		_ = r.log.Close()
		r.log = nil
	}
	for _, fd := range []*int{&r.ipv4, &r.ipv6} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
		}
		*fd = -1
	}
}
