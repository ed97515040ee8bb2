package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/framework"
)

// lab is two hosts, each a network namespace, with a cable between them. There is an
// agent on the first, and on the second where a test wants it.
type lab struct {
	t       *testing.T
	ns      [2]*os.File
	nodes   [2]*testNode
	network *Network
}

// Hosts of a lab.
const (
	node1 = iota
	node2
)

func hostName(host int) string { return fmt.Sprintf("node-%d", host+1) }

func hostAddr(host int) string { return fmt.Sprintf("10.9.0.%d", host+1) }

func newLab(t *testing.T, agents int) *lab {
	t.Helper()
	l := &lab{t: t}
	for host := range l.ns {
		l.ns[host] = newNetns(t)
	}
	l.inside(node1, func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth0",
			PeerNamespace: netlink.NsFd(int(l.ns[node2].Fd()))})
	})
	for host := range l.ns {
		l.inside(host, func() error {
			addr, err := netlink.ParseAddr(hostAddr(host) + "/24")
			if err != nil {
				return err
			}
			eth, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return errors.Join(netlink.AddrAdd(eth, addr), netlink.LinkSetUp(eth))
		})
	}
	var parties []Party
	for host := range l.ns {
		p := Party{Name: hostName(host), Prefixes: []netip.Prefix{netip.MustParsePrefix(hostAddr(host) + "/32")}}
		if host < agents {
			n := newNode(t)
			n.start = func(cmd *exec.Cmd) (err error) {
				l.inside(host, func() error { err = cmd.Start(); return err })
				return err
			}
			n.node, n.config.Device = p.Name, "eth0"
			n.up()
			l.nodes[host] = n
			p.Agents = []*Client{n.Client}
		}
		parties = append(parties, p)
	}
	l.network = NewNetwork("lab", parties)
	must(t, l.network.Meet(t.Context()))
	if err := l.network.CheckImpairment(t.Context(), []framework.Link{link(node1)}, framework.Impairment{Cut: true}); err != nil {
		t.Skip(err)
	}
	return l
}

// newNetns makes a network namespace with its loopback device up.
func newNetns(t *testing.T) (ns *os.File) {
	t.Helper()
	onThread(t, func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		if ns, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	t.Cleanup(func() { _ = ns.Close() })
	return ns
}

// inside does something on a host's network. Sockets stay there.
func (l *lab) inside(host int, do func() error) {
	l.t.Helper()
	onThread(l.t, func() error {
		if err := unix.Setns(int(l.ns[host].Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return do()
	})
}

// onThread runs do on a thread of its own, which ends with it.
func onThread(t *testing.T, do func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- do()
	}()
	must(t, <-done)
}

func (l *lab) listen(host, port int) (listener net.Listener) {
	l.t.Helper()
	l.inside(host, func() (err error) {
		listener, err = net.Listen("tcp4", fmt.Sprintf("%s:%d", hostAddr(host), port))
		return err
	})
	l.t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// serve answers TCP on a port of a host with what it is sent.
func (l *lab) serve(host, port int) {
	l.t.Helper()
	go echoAll(l.listen(host, port))
}

// echoAll answers every connection with what it is sent.
func echoAll(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}()
	}
}

// dial connects from a host to a port of the other one.
func (l *lab) dial(from int, port int, limit time.Duration) (conn net.Conn, err error) {
	l.inside(from, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp4", fmt.Sprintf("%s:%d", hostAddr(1-from), port))
		return nil
	})
	if err == nil {
		l.t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

func (l *lab) mustDial(from, port int) net.Conn {
	l.t.Helper()
	conn, err := l.dial(from, port, 5*time.Second)
	must(l.t, err)
	must(l.t, echo(conn, 5*time.Second))
	return conn
}

// echo sends something and waits for it to come back.
func echo(conn net.Conn, limit time.Duration) error {
	_ = conn.SetDeadline(time.Now().Add(limit))
	if _, err := conn.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err
}

// quiet is how long a packet that is to be dropped may take to come all the same.
const quiet = 200 * time.Millisecond

// datagrams sends UDP packets from a host to a port of the other one and reports how
// many came, up to most.
func (l *lab) datagrams(from, port, count, most int) (came int) {
	l.t.Helper()
	var receiver net.PacketConn
	var sender net.Conn
	// A process that is being started, as by another test, keeps sockets open that
	// are closed here until it has become another program.
	eventually(l.t, "the port is free", func() bool {
		l.inside(1-from, func() error {
			conn, err := net.ListenPacket("udp4", fmt.Sprintf("%s:%d", hostAddr(1-from), port))
			if errors.Is(err, unix.EADDRINUSE) {
				return nil
			}
			receiver = conn
			return err
		})
		return receiver != nil
	})
	defer receiver.Close()
	l.inside(from, func() (err error) {
		sender, err = net.Dial("udp4", receiver.LocalAddr().String())
		return err
	})
	defer sender.Close()
	buf := make([]byte, 1)
	for range count {
		_, err := sender.Write(buf)
		must(l.t, err)
	}
	for ; came < most; came++ {
		_ = receiver.SetReadDeadline(time.Now().Add(quiet))
		if _, _, err := receiver.ReadFrom(buf); err != nil {
			break
		}
	}
	return came
}

// passes reports whether a packet comes through.
func (l *lab) passes(from int) bool {
	l.t.Helper()
	return l.datagrams(from, 9999, 1, 1) == 1
}

// impair impairs the link from a host to the other one, or both ways.
func (l *lab) impair(imp framework.Impairment, ttl time.Duration, links ...framework.Link) string {
	l.t.Helper()
	handle, err := l.network.Impair(l.t.Context(), links, imp, ttl)
	must(l.t, err)
	return handle
}

func (l *lab) restore(handle string) {
	l.t.Helper()
	must(l.t, l.network.Restore(l.t.Context(), handle))
}

// counters adds up what an impairment has done to all its links.
func (l *lab) counters(handle string) (sum framework.LinkCounters) {
	l.t.Helper()
	all, err := l.network.ImpairmentCounters(l.t.Context(), handle)
	must(l.t, err)
	for _, c := range all {
		sum = sum.Add(c)
	}
	return sum
}

func (l *lab) state(from int) framework.LinkState {
	l.t.Helper()
	s, err := l.network.LinkState(l.t.Context(), hostName(from), hostName(1-from))
	must(l.t, err)
	return s
}

func link(from int, ports ...uint16) framework.Link {
	return framework.Link{From: hostName(from), To: hostName(1 - from), Ports: ports}
}
