package vnet

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"slices"
)

// Backend is how a port reaches its network namespace.
type Backend string

const (
	// Auto is TAP, or Packet if TAP is not available.
	Auto Backend = ""
	// TAP is a TAP device with a virtio-net header. It needs /dev/net/tun.
	TAP Backend = "tap"
	// Packet is a veth pair and an AF_PACKET socket. It needs no device node.
	Packet Backend = "packet"
	// Socket is a connected unix socket that keeps message boundaries
	// (SOCK_DGRAM or SOCK_SEQPACKET), one plain Ethernet frame a message, as
	// QEMU's dgram network backend speaks.
	Socket Backend = "socket"
)

// PortConfig configures a port. Only Name is required.
type PortConfig struct {
	// Name is the party's name in links and counters.
	Name string
	// Netns is the path of the network namespace in which the device appears, such as
	// /proc/PID/ns/net; NetnsFile is an open one, and has priority. Without both it is the
	// caller's own. The switch does not keep either.
	Netns     string
	NetnsFile *os.File
	// Device is the device's name in that namespace; eth0 if empty.
	Device string
	// MAC is the device's address; derived from Name if nil.
	MAC net.HardwareAddr
	// Addrs are set on the device, with their prefix lengths.
	Addrs []netip.Prefix
	// Backend is the way to the namespace; Auto if empty.
	Backend Backend
	// MTU of the device; the switch's if 0.
	MTU int
	// Socket is the switch's end for Backend Socket. The switch duplicates it.
	// Netns, Device, Addrs and MTU are not used then.
	Socket *os.File
}

// device is a port's input and output. All frames have a virtio-net header.
type device interface {
	fd() int
	// read reads one frame without waiting; it returns a plain errno.
	read(buf []byte) (int, error)
	// write writes one frame without waiting, and reports whether it was taken.
	write(buf []byte) bool
	// close removes the device.
	close() error
}

// Port is a device on the switch.
type Port struct {
	sw      *Switch
	id      int32
	party   *party
	config  PortConfig
	device  device
	plugged bool
}

// Attach creates a device in a network namespace, sets its addresses, brings it and the
// namespace's lo up, and plugs it in. A name can be attached again after its port was closed;
// rules and counters of its links continue then.
func (s *Switch) Attach(config PortConfig) (*Port, error) {
	p, err := s.attach(config)
	if err != nil {
		return nil, fmt.Errorf("failed to attach port %q: %w", config.Name, err)
	}
	return p, nil
}

func (s *Switch) attach(config PortConfig) (*Port, error) {
	if err := config.complete(s.config); err != nil {
		return nil, err
	}
	party, err := s.reserve(config.Name)
	if err != nil {
		return nil, err
	}
	defer s.attaching.Done()
	if config.MAC == nil {
		config.MAC = s.deriveMAC(config.Name)
	}
	dev, backend, err := s.open(&config)
	config.Backend = backend
	unlock := s.lock()
	defer unlock()
	party.reserved = false
	if err != nil {
		return nil, err
	}
	if s.closed {
		return nil, errors.Join(ErrClosed, dev.close())
	}
	s.lastPort++
	p := &Port{sw: s, id: s.lastPort + firstID, party: party, config: config, device: dev, plugged: true}
	if err := s.loop.add(dev.fd(), p.id); err != nil {
		return nil, errors.Join(err, dev.close())
	}
	s.ports[p.id] = p
	party.port, party.attached = p, true
	if len(config.MAC) == 6 {
		s.learn(address(config.MAC), party)
	}
	return p, nil
}

// reserve reserves a name for an Attach in progress, and starts the loop if it does not run
// yet.
func (s *Switch) reserve(name string) (*party, error) {
	unlock := s.lock()
	defer unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if p := s.parties[name]; p != nil && (p.port != nil || p.reserved) {
		return nil, errors.New("a port of this name is already attached; close it first")
	}
	if s.loop == nil {
		l, err := newLoop()
		if err != nil {
			return nil, err
		}
		s.loop = l
		go s.run(l)
	}
	p := s.party(name)
	p.reserved = true
	s.attaching.Add(1)
	return p, nil
}

// complete checks a configuration and fills in defaults.
func (c *PortConfig) complete(s Config) error {
	if c.Name == "" {
		return errors.New("it has no name")
	}
	c.Device = cmp.Or(c.Device, "eth0")
	c.MTU = cmp.Or(c.MTU, s.MTU)
	if c.MTU < 68 || c.MTU > 65521 {
		return fmt.Errorf("MTU is %d, want 68 to 65521", c.MTU)
	}
	if c.MAC != nil && (len(c.MAC) != 6 || c.MAC[0]&1 != 0) {
		return fmt.Errorf("%s is not a unicast MAC address", c.MAC)
	}
	for _, a := range c.Addrs {
		if !a.IsValid() {
			return errors.New("an address is not valid: it must have a network length, such as 10.77.0.11/24")
		}
	}
	if (c.Socket != nil) != (c.Backend == Socket) {
		return errors.New("backend socket and a socket go together")
	}
	c.Addrs = slices.Clone(c.Addrs)
	return nil
}

// open makes the device.
func (s *Switch) open(c *PortConfig) (device, Backend, error) {
	switch c.Backend {
	case Socket:
		d, err := newSocketDevice(c.Socket)
		return d, Socket, err
	case Auto, TAP, Packet:
	default:
		return nil, "", fmt.Errorf("unknown backend %q, want one of %q, %q, %q", c.Backend, TAP, Packet, Socket)
	}
	ns, err := openNetns(c)
	if err != nil {
		return nil, "", err
	}
	defer ns.Close()
	if c.Backend != Packet {
		d, err := newTAP(c, ns)
		if err == nil {
			return d, TAP, nil
		}
		if c.Backend == TAP || !errors.Is(err, errNoTAP) {
			return nil, "", err
		}
	}
	d, err := s.veths.newDevice(c, ns)
	return d, Packet, err
}

// deriveMAC makes a locally administered address from a name.
func (s *Switch) deriveMAC(name string) net.HardwareAddr {
	unlock := s.lock()
	defer unlock()
	h := fnv.New64a()
	h.Write([]byte(name))
	for {
		sum := h.Sum64()
		mac := net.HardwareAddr{0x02, byte(sum >> 32), byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}
		if p := s.addresses[address(mac)]; p == nil || p.name == name {
			return mac
		}
		h.Write([]byte{0})
	}
}

// Backend returns the backend that Auto chose.
func (p *Port) Backend() Backend { return p.config.Backend }

// Device returns the name of the device in its namespace.
func (p *Port) Device() string { return p.config.Device }

// Unplug pulls the cable: once it returns nothing comes in or out, and packets in transit to or
// from the port are dropped. The device stays, and its owner does not notice. Unplug a machine
// before killing it, so that its kernel's last packets (FIN, RST) are dropped; Close the port
// afterwards.
func (p *Port) Unplug() {
	unlock := p.sw.lock()
	defer unlock()
	p.unplug()
}

func (p *Port) unplug() {
	p.plugged = false
	p.sw.queue.remove(func(q *queued) bool { return q.link.from == p.party || q.link.to == p.party })
}

// Close unplugs the port and removes its device. Closing it again does nothing. An open TAP
// port keeps its network namespace alive, and with it the dead machine's kernel, which answers
// with RST once plugged.
func (p *Port) Close() error {
	unlock := p.sw.lock()
	if p.sw.ports[p.id] != p {
		unlock()
		return nil
	}
	p.unplug()
	p.sw.loop.remove(p.device.fd())
	delete(p.sw.ports, p.id)
	p.party.port = nil
	unlock()
	// The device is not reachable any more. Removing it takes the kernel milliseconds, for
	// which other callers need not wait.
	if err := p.device.close(); err != nil {
		return fmt.Errorf("failed to close port %q: %w", p.config.Name, err)
	}
	return nil
}
