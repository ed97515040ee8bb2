package balancer

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/holdfast-ha/holdfast/clusters"
)

// names answers DNS queries for names with the addresses of the healthy backends, each time in
// another order, with the TTL clusters.NameTTL. If none is healthy, it answers with all: that
// makes nothing worse.
type names struct {
	b       *Balancer
	names   []string
	servers []*dns.Server
}

// serveNames listens for queries on UDP and TCP.
func (b *Balancer) serveNames(c Config) error {
	n := &names{b: b, names: c.Names}
	packets, err := net.ListenPacket("udp", c.Listen)
	if err != nil {
		return fmt.Errorf("the balancer failed to listen for DNS queries: %w", err)
	}
	// The same port for both, also if the system chooses it.
	streams, err := net.Listen("tcp", packets.LocalAddr().String())
	if err != nil {
		packets.Close()
		return fmt.Errorf("the balancer failed to listen for DNS queries: %w", err)
	}
	n.servers = []*dns.Server{{PacketConn: packets, Handler: n}, {Listener: streams, Handler: n}}
	for _, server := range n.servers {
		up := make(chan struct{})
		server.NotifyStartedFunc = func() { close(up) }
		b.work.Go(func() { _ = server.ActivateAndServe() })
		<-up
	}
	b.questions, b.addr = n, packets.LocalAddr()
	return nil
}

func (n *names) close() {
	for _, server := range n.servers {
		_ = server.Shutdown()
	}
}

// ServeDNS implements dns.Handler.
func (n *names) ServeDNS(w dns.ResponseWriter, question *dns.Msg) {
	answer := new(dns.Msg)
	answer.SetReply(question)
	answer.Authoritative = true
	switch {
	case len(question.Question) != 1:
		answer.Rcode = dns.RcodeFormatError
	case !slices.Contains(n.names, strings.ToLower(strings.TrimSuffix(question.Question[0].Name, "."))):
		answer.Rcode = dns.RcodeNameError
	case question.Question[0].Qtype == dns.TypeA:
		for _, addr := range n.b.addresses() {
			answer.Answer = append(answer.Answer, &dns.A{A: addr.AsSlice(), Hdr: dns.RR_Header{Name: question.Question[0].Name,
				Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: uint32(clusters.NameTTL / time.Second)}})
		}
	}
	_ = w.WriteMsg(answer)
}

// addresses returns those of the healthy backends, or of all, starting with another one each
// time.
func (b *Balancer) addresses() []netip.Addr {
	b.mu.Lock()
	defer b.mu.Unlock()
	var healthy, all []netip.Addr
	for _, backend := range b.backends {
		addr, err := netip.ParseAddrPort(backend.Address)
		if err != nil {
			continue // Validate has checked it
		}
		all = append(all, addr.Addr())
		if backend.usable() {
			healthy = append(healthy, addr.Addr())
		}
	}
	if len(healthy) == 0 {
		healthy = all
	}
	if len(healthy) == 0 {
		return nil
	}
	b.next++
	first := int(b.next % uint64(len(healthy)))
	return slices.Concat(healthy[first:], healthy[:first])
}
