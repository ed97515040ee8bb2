package local

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
	"github.com/holdfast-ha/holdfast/framework"
)

const dnsPort = 53

// nameTTL is the TTL of answers, in seconds. Names of a cluster under test may change at any
// time.
const nameTTL = 1

// resolvConf makes programs on a machine query the DNS server, and retry soon if it does not
// answer.
const resolvConf = "nameserver %s\noptions timeout:1 attempts:2\n"

// nameServer answers the machines' DNS queries, on the harness's address. Faults make it answer
// wrongly.
type nameServer struct {
	servers []*dns.Server
	closed  chan struct{}

	mu    sync.Mutex
	names map[string]netip.Addr // guarded by mu
	order []string              // of names; guarded by mu
	// asks are the hosts to which queries for some names are forwarded.
	asks   map[string]netip.Addr // guarded by mu
	faults []*nameFault          // guarded by mu
	timers expiry.Timers[string] // of faults, by handle; guarded by mu
	next   int                   // guarded by mu
}

type nameFault struct {
	framework.NameDisturbance
	handle string
	hosts  []netip.Addr
}

func startNameServer(on netip.Addr) (*nameServer, error) {
	s := &nameServer{names: map[string]netip.Addr{}, asks: map[string]netip.Addr{}, closed: make(chan struct{})}
	for _, network := range []string{"udp", "tcp"} {
		up, failed := make(chan struct{}), make(chan error, 1)
		server := &dns.Server{Addr: hostPort(on, dnsPort), Net: network, Handler: s, NotifyStartedFunc: func() { close(up) }}
		go func() { failed <- server.ListenAndServe() }()
		select {
		case <-up:
			s.servers = append(s.servers, server)
		case err := <-failed:
			s.close()
			return nil, fmt.Errorf("failed to serve DNS on %s: %w", on, err)
		}
	}
	return s, nil
}

func (s *nameServer) close() {
	close(s.closed)
	for _, server := range s.servers {
		_ = server.Shutdown()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timers.StopAll()
}

func (s *nameServer) add(name string, addr netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[name] = addr
	s.order = append(s.order, name)
}

func (s *nameServer) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, name)
	s.order = slices.DeleteFunc(slices.Clone(s.order), func(known string) bool { return known == name })
}

// ask forwards queries for a name to the DNS server on a host.
func (s *nameServer) ask(name string, on netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks[name] = on
}

// askLimit is how long another DNS server may take to answer.
const askLimit = 500 * time.Millisecond

// passOn returns the answer of another DNS server.
func (s *nameServer) passOn(question *dns.Msg, to netip.Addr) *dns.Msg {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	asked := dns.Client{Timeout: askLimit}
	answer, _, err := asked.ExchangeContext(ctx, question, hostPort(to, dnsPort))
	if err != nil {
		answer = new(dns.Msg)
		answer.SetRcode(question, dns.RcodeServerFailure)
	}
	return answer
}

// ServeDNS implements dns.Handler.
func (s *nameServer) ServeDNS(w dns.ResponseWriter, question *dns.Msg) {
	answer := new(dns.Msg)
	answer.SetReply(question)
	answer.Authoritative = true
	if len(question.Question) != 1 {
		answer.Rcode = dns.RcodeFormatError
		_ = w.WriteMsg(answer)
		return
	}
	q := question.Question[0]
	name := strings.ToLower(strings.TrimSuffix(q.Name, "."))
	var from netip.Addr
	if a, err := netip.ParseAddrPort(w.RemoteAddr().String()); err == nil {
		from = a.Addr().Unmap()
	}
	addr, other, d := s.look(from, name)
	if d.Silent {
		return
	}
	if d.Delay > 0 {
		timer := time.NewTimer(d.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.closed:
			return
		}
	}
	switch {
	case other.IsValid():
		answer = s.passOn(question, other)
	case !addr.IsValid():
		answer.Rcode = dns.RcodeNameError
	case q.Qtype == dns.TypeA:
		answer.Answer = []dns.RR{&dns.A{A: addr.AsSlice(),
			Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: nameTTL}}}
	}
	_ = w.WriteMsg(answer)
}

// look returns the answer for a host's query of a name, and how to send it, or the server to
// forward it to.
func (s *nameServer) look(from netip.Addr, name string) (addr, other netip.Addr, all framework.NameDisturbance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addr, other = s.names[name], s.asks[name]
	for _, f := range s.faults {
		if !slices.Contains(f.hosts, from) || len(f.Names) > 0 && !slices.Contains(f.Names, name) {
			continue
		}
		all.Silent = all.Silent || f.Silent
		all.Delay += f.Delay
		switch {
		case f.NotFound:
			addr, other = netip.Addr{}, netip.Addr{}
		case f.Address.IsValid():
			addr, other = f.Address, netip.Addr{}
		}
	}
	return addr, other, all
}

func (s *nameServer) disturb(hosts []netip.Addr, d framework.NameDisturbance, ttl time.Duration) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	f := &nameFault{NameDisturbance: d, handle: strconv.Itoa(s.next), hosts: hosts}
	s.timers.Start(&s.mu, f.handle, ttl, func() error { s.drop(f.handle); return nil })
	s.faults = append(s.faults, f)
	return f.handle
}

func (s *nameServer) restore(handle string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(handle)
}

// drop is restore with mu held.
func (s *nameServer) drop(handle string) {
	s.timers.Stop(handle)
	s.faults = slices.DeleteFunc(s.faults, func(f *nameFault) bool { return f.handle == handle })
}

var _ framework.DNSFaulter = (*Cluster)(nil)

// startNames starts the DNS server. A system without /etc/resolv.conf has no file over which a
// machine's own could be mounted: its machines then resolve each other only by /etc/hosts.
func (c *Cluster) startNames() error {
	if !hasNames() {
		return nil
	}
	var err error
	c.names, err = startNameServer(host(harnessHost).Addr())
	return err
}

func hasNames() bool {
	_, err := filepath.EvalSymlinks("/etc/resolv.conf")
	return err == nil
}

// hostsFile writes the /etc/hosts of a machine: itself, and all others only without a DNS
// server. It returns its path.
func (c *Cluster) hostsFile(name string, addr netip.Addr, dir string) (string, error) {
	text := "127.0.0.1 localhost\n::1 localhost\n"
	if c.names != nil {
		text += fmt.Sprintf("%s %s\n", addr, name)
	} else {
		for _, h := range c.known() {
			text += fmt.Sprintf("%s %s\n", h.addr, h.name)
		}
	}
	file := filepath.Join(dir, "hosts")
	return file, os.WriteFile(file, []byte(text), 0o644)
}

var errNoNames = errors.New("this system has no /etc/resolv.conf, so the cluster's machines have no DNS server")

// Names implements framework.DNSFaulter.
func (c *Cluster) Names() []string {
	if c.names == nil {
		return nil
	}
	c.names.mu.Lock()
	defer c.names.mu.Unlock()
	return slices.Clone(c.names.order)
}

// DisturbNames implements framework.DNSFaulter.
func (c *Cluster) DisturbNames(_ context.Context, hosts []string, d framework.NameDisturbance, ttl time.Duration) (string, error) {
	if c.names == nil {
		return "", errNoNames
	}
	if ttl <= 0 {
		return "", fmt.Errorf("a DNS fault needs a time to live above zero, not %s", ttl)
	}
	if d.Delay < 0 {
		return "", fmt.Errorf("answers cannot be delayed by %s", d.Delay)
	}
	var from []netip.Addr
	for _, name := range hosts {
		m, err := c.machine(name)
		if err != nil {
			return "", err
		}
		from = append(from, m.addr.Addr())
	}
	return c.names.disturb(from, d, ttl), nil
}

// RestoreNames implements framework.DNSFaulter.
func (c *Cluster) RestoreNames(_ context.Context, handle string) error {
	if c.names == nil {
		return errNoNames
	}
	c.names.restore(handle)
	return nil
}

// LookUp implements framework.DNSFaulter.
func (c *Cluster) LookUp(ctx context.Context, hostName, name string) (framework.Lookup, error) {
	m, err := c.machine(hostName)
	if err != nil {
		return framework.Lookup{}, err
	}
	var found framework.Lookup
	err = m.agent.Call(ctx, lookUpPath, "look up "+name, name, &found)
	return found, err
}

func (c *Cluster) machine(name string) (*machine, error) {
	var names []string
	for _, m := range c.machines() {
		if m.name == name {
			return m, nil
		}
		names = append(names, m.name)
	}
	return nil, fmt.Errorf("cluster %s has no machine %q; it has %s", c.Name(), name, strings.Join(names, ", "))
}
