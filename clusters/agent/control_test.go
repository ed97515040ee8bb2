package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/framework"
)

// The ports of sshd on the first host, and on the second one.
const controlPort, peerControlPort = 2222, 2223

// withControlPort restarts the agent of the first host with the control ports, and sets the
// parties: the harness is on a host.
func (l *lab) withControlPort(harness int) {
	l.t.Helper()
	n := l.nodes[node1]
	n.kill()
	n.config.ControlPort, n.config.PeerControlPorts = controlPort, []uint16{peerControlPort}
	n.up()
	at := func(host int) []netip.Prefix {
		return []netip.Prefix{netip.MustParsePrefix(hostAddr(host) + "/32"), netip.MustParsePrefix(hostAddr6(host) + "/128")}
	}
	l.network.Replace([]Party{{Name: hostName(node1), Prefixes: at(node1), Agents: []*Client{n.Client}},
		{Name: hostName(node2), Prefixes: at(node2)}, {Name: framework.HarnessHost, Prefixes: at(harness)}})
	must(l.t, l.network.Meet(l.t.Context()))
}

func hostAddr6(host int) string { return fmt.Sprintf("fd00:9::%d", host+1) }

// addresses gives the hosts IPv6 addresses, if there is IPv6, and returns those of a host.
func (l *lab) addresses() func(host int) []string {
	six := true
	for host := range l.ns {
		l.inside(host, func() error {
			addr, err := netlink.ParseAddr(hostAddr6(host) + "/64")
			if err != nil {
				return err
			}
			addr.Flags = unix.IFA_F_NODAD
			eth, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(eth, addr); err != nil {
				l.t.Logf("without IPv6: %v", err)
				six = false
			}
			return nil
		})
	}
	return func(host int) []string {
		if !six {
			return []string{hostAddr(host)}
		}
		return []string{hostAddr(host), hostAddr6(host)}
	}
}

// answer echoes on a port of an address of a host.
func (l *lab) answer(host int, address string, port int) {
	l.t.Helper()
	var listener net.Listener
	l.inside(host, func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(port)))
		return err
	})
	l.t.Cleanup(func() { _ = listener.Close() })
	go echoAll(listener)
}

// reach connects from a host to a port of an address of the other one.
func (l *lab) reach(from int, address string, port int, limit time.Duration) (conn net.Conn, err error) {
	l.t.Helper()
	l.inside(from, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(address, fmt.Sprint(port)))
		return nil
	})
	if err == nil {
		l.t.Cleanup(func() { _ = conn.Close() })
		err = echo(conn, limit)
	}
	return conn, err
}

// forgetNeighbors makes the hosts resolve each other's address again.
func (l *lab) forgetNeighbors() {
	l.t.Helper()
	for host := range l.ns {
		l.inside(host, func() error {
			eth, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			var errs []error
			for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
				all, err := netlink.NeighList(eth.Attrs().Index, family)
				errs = append(errs, err)
				for _, one := range all {
					if one.State&(netlink.NUD_NOARP|netlink.NUD_PERMANENT) == 0 {
						if err := netlink.NeighDel(&one); !errors.Is(err, unix.ENOENT) {
							errs = append(errs, err)
						}
					}
				}
			}
			return errors.Join(errs...)
		})
	}
}

// TestControlPortDetour checks that the harness reaches the control port at full speed through
// every fault that is done in user space, also when the agent is gone, and no other port.
func TestControlPortDetour(t *testing.T) {
	t.Parallel()
	l := detourLab(t)
	of := l.addresses()
	l.withControlPort(node2)
	const delay = 300 * time.Millisecond
	links := []framework.Link{{From: hostName(node1), To: framework.HarnessHost}, {From: framework.HarnessHost, To: hostName(node1)}}
	var control, other []net.Conn
	for _, address := range of(node1) {
		for port, conns := range map[int]*[]net.Conn{controlPort: &control, 80: &other} {
			l.answer(node1, address, port)
			conn, err := l.reach(node2, address, port, 5*time.Second)
			must(t, err)
			*conns = append(*conns, conn)
		}
	}
	for _, imp := range []framework.Impairment{{Delay: delay}, {Delay: delay, Rate: 1e6}, {Corrupt: 1}, {Delay: delay, Duplicate: 1, Reorder: 0.5}} {
		handle := l.impair(imp, time.Hour, links...)
		l.forgetNeighbors()
		for i, conn := range control {
			if d := took(t, func() error { return echo(conn, 5*time.Second) }); d > delay/2 {
				t.Errorf("%+v: to the control port of %s a round trip takes %s", imp, of(node1)[i], d)
			}
		}
		for i, address := range of(node1) {
			if _, err := l.reach(node2, address, controlPort, 5*time.Second); err != nil {
				t.Errorf("%+v: connecting to the control port of %s: %v", imp, address, err)
			}
			if imp.Corrupt > 0 {
				continue
			}
			if d := took(t, func() error {
				if err := echo(other[i], 10*time.Second); err != nil {
					return fmt.Errorf("%+v: another port of %s: %w", imp, address, err)
				}
				return nil
			}); d < 2*delay {
				t.Errorf("%+v: to another port of %s a round trip takes %s", imp, address, d)
			}
		}
		l.restore(handle)
	}

	l.impair(framework.Impairment{Delay: delay}, time.Hour, links...)
	l.nodes[node1].kill()
	l.forgetNeighbors()
	for i, address := range of(node1) {
		if err := echo(control[i], 5*time.Second); err != nil {
			t.Errorf("without an agent the control port of %s does not answer: %v", address, err)
		}
		if _, err := l.reach(node2, address, controlPort, 5*time.Second); err != nil {
			t.Errorf("without an agent, connecting to the control port of %s: %v", address, err)
		}
		if err := echo(other[i], 3*delay); err == nil {
			t.Errorf("without an agent another port of %s answers", address)
		}
	}
}

// TestControlPortFromNode checks that a harness, or its jump host, on a node reaches the control
// port of another one, which is not that of its own node, through the faults of its own node, and
// that nothing else does.
func TestControlPortFromNode(t *testing.T) {
	t.Parallel()
	l := detourLab(t)
	of := l.addresses()
	l.withControlPort(node1)
	const delay = 300 * time.Millisecond
	links := []framework.Link{link(node1), link(node2)}
	l.answer(node1, hostAddr(node1), controlPort)
	for _, port := range []int{80, controlPort} {
		l.answer(node2, hostAddr(node2), port)
	}
	var control []net.Conn
	for _, address := range of(node2) {
		l.answer(node2, address, peerControlPort)
		conn, err := l.reach(node1, address, peerControlPort, 5*time.Second)
		must(t, err)
		control = append(control, conn)
	}
	for _, imp := range []framework.Impairment{{Cut: true}, {Reset: true}, {Loss: 1}, {Delay: delay}} {
		handle := l.impair(imp, time.Hour, links...)
		l.forgetNeighbors()
		for i, address := range of(node2) {
			if d := took(t, func() error { return echo(control[i], 5*time.Second) }); d > delay/2 {
				t.Errorf("%+v: to the control port of %s a round trip takes %s", imp, address, d)
			}
			if _, err := l.reach(node1, address, peerControlPort, 5*time.Second); err != nil {
				t.Errorf("%+v: connecting to the control port of %s: %v", imp, address, err)
			}
		}
		for _, port := range []int{80, controlPort} {
			if _, err := l.reach(node1, hostAddr(node2), port, delay); err == nil {
				t.Errorf("%+v: port %d of the other node is not impaired", imp, port)
			}
		}
		if _, err := l.reach(node2, hostAddr(node1), controlPort, delay); err == nil {
			t.Errorf("%+v: the other node, which is not the harness's, reaches the control port", imp)
		}
		l.restore(handle)
	}

	// The link between the node and the harness is within the node.
	l.inside(node1, func() error {
		listener, err := net.Listen("tcp4", hostAddr(node1)+":80")
		if err == nil {
			t.Cleanup(func() { _ = listener.Close() })
			go echoAll(listener)
		}
		return err
	})
	handle := l.impair(framework.Impairment{Cut: true}, time.Hour,
		framework.Link{From: hostName(node1), To: framework.HarnessHost}, framework.Link{From: framework.HarnessHost, To: hostName(node1)})
	l.inside(node1, func() error {
		conn, err := net.DialTimeout("tcp4", hostAddr(node1)+":80", 5*time.Second)
		if err != nil {
			t.Errorf("the node does not reach itself: %v", err)
			return nil
		}
		defer conn.Close()
		return echo(conn, 5*time.Second)
	})
	l.restore(handle)
}
