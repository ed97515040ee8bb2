package vnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/sandbox/sandboxtest"
)

// lab is a switch with machines.
type lab struct {
	*Switch
	t        testing.TB
	machines map[string]*machine
}

// machine is a network namespace with a port.
type machine struct {
	t    testing.TB
	ns   *os.File
	port *Port
	addr netip.Addr
	ip6  netip.Addr
}

func newLab(t testing.TB, config Config, backend Backend, names ...string) *lab {
	t.Helper()
	sandboxtest.Need(t)
	l := &lab{Switch: New(config), t: t, machines: make(map[string]*machine)}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close switch: %v", err)
		}
	})
	for i, name := range names {
		m := &machine{
			t:    t,
			addr: netip.AddrFrom4([4]byte{10, 77, 0, byte(11 + i)}),
			ip6:  netip.MustParseAddr(fmt.Sprintf("fd77::%d", 11+i)),
		}
		var err error
		if m.ns, err = newNetns(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.ns.Close() })
		m.port = l.attach(name, m, backend)
		l.machines[name] = m
	}
	return l
}

func (l *lab) attach(name string, m *machine, backend Backend) *Port {
	l.t.Helper()
	port, err := l.Attach(PortConfig{
		Name: name, NetnsFile: m.ns, Backend: backend,
		Addrs: []netip.Prefix{netip.PrefixFrom(m.addr, 24), netip.PrefixFrom(m.ip6, 64)},
	})
	if backend == TAP && errors.Is(err, errNoTAP) {
		l.t.Skip(err)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return port
}

func (l *lab) impair(imp Impairment, links ...Link) RuleID {
	l.t.Helper()
	id, err := l.Impair(Rule{Links: links, Impairment: imp})
	if err != nil {
		l.t.Fatal(err)
	}
	return id
}

func (l *lab) counters(id RuleID) RuleCounters {
	l.t.Helper()
	c, ok := l.RuleCounters(id)
	if !ok {
		l.t.Fatalf("rule %d has no counters", id)
	}
	return total(c)
}

// in runs do in the machine's namespace.
func (m *machine) in(do func() error) error { return inNetns(m.ns, do) }

func (m *machine) listen(port uint16) net.Listener {
	m.t.Helper()
	var l net.Listener
	err := m.in(func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { l.Close() })
	return l
}

// echo answers every connection to a port with what it sends.
func (m *machine) echo(port uint16) {
	m.t.Helper()
	l := m.listen(port)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					if _, err := c.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
}

func (m *machine) dial(addr netip.Addr, port uint16, timeout time.Duration) (c net.Conn, err error) {
	err = m.in(func() (err error) {
		c, err = net.DialTimeout("tcp", netip.AddrPortFrom(addr, port).String(), timeout)
		return err
	})
	if err == nil {
		m.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

func (m *machine) mustDial(addr netip.Addr, port uint16) net.Conn {
	m.t.Helper()
	c, err := m.dial(addr, port, 10*time.Second)
	if err != nil {
		m.t.Fatal(err)
	}
	return c
}

func (m *machine) udp(port uint16) *net.UDPConn {
	m.t.Helper()
	var c *net.UDPConn
	err := m.in(func() (err error) {
		c, err = net.ListenUDP("udp", &net.UDPAddr{Port: int(port)})
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { c.Close() })
	return c
}

// ping sends ICMP echo requests and returns how many were answered in time.
func (m *machine) ping(to netip.Addr, count int, each time.Duration) (answered int) {
	m.t.Helper()
	network, request := "ip4:icmp", []byte{8, 0, 0, 0, 0x77, 0x77, 0, 0}
	if to.Is6() {
		network, request = "ip6:ipv6-icmp", []byte{128, 0, 0, 0, 0x77, 0x77, 0, 0}
	}
	reply := request[0] - 8
	if to.Is6() {
		reply = 129
	}
	var c *net.IPConn
	err := m.in(func() (err error) {
		c, err = net.DialIP(network, nil, &net.IPAddr{IP: to.AsSlice()})
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	defer c.Close()
	for i := range count {
		request[2], request[3], request[7] = 0, 0, byte(i)
		if to.Is4() {
			checksum := ^fold(sum(0, request))
			request[2], request[3] = byte(checksum>>8), byte(checksum)
		}
		if _, err := c.Write(request); err != nil {
			m.t.Logf("ping %s: %v", to, err)
			continue
		}
		deadline := time.Now().Add(each)
		for buf := make([]byte, 1500); time.Now().Before(deadline); {
			c.SetReadDeadline(deadline)
			n, _, err := c.ReadFrom(buf)
			if err != nil {
				break
			}
			if n >= 8 && buf[0] == reply && buf[7] == byte(i) {
				answered++
				break
			}
		}
	}
	return answered
}

// timed returns how long do took, without the time for which a busy machine kept the process from
// running.
func timed(do func()) time.Duration {
	const beat, tolerated = 5 * time.Millisecond, 5 * time.Millisecond
	over, late := make(chan struct{}), make(chan time.Duration)
	go func() {
		var sum time.Duration
		for beats := true; beats; {
			began := time.Now()
			select {
			case <-over:
				beats = false
			case <-time.After(beat):
			}
			if l := time.Since(began) - beat; l > tolerated {
				sum += l
			}
		}
		late <- sum
	}()
	start := time.Now()
	do()
	took := time.Since(start)
	close(over)
	return max(0, took-<-late)
}
