package benchnetwork

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/rs/zerolog"
	"github.com/vishvananda/netlink"

	"github.com/holdfast-ha/holdfast/clusters/sandbox/sandboxtest"
	"github.com/holdfast-ha/holdfast/clusters/vnet"
)

var addresses = [2]netip.Prefix{netip.MustParsePrefix("10.77.0.11/24"), netip.MustParsePrefix("10.77.0.12/24")}

const port = 5001

// path is a network path from one end to another that can be broken.
type path struct {
	name string
	// machine are the ends; one without a namespace is in this process's own.
	machine [2]machine
	// target is the address that the sender sends to.
	target string
	// cut and delay break the path, and return how to mend it.
	cut   func() (mend func() error, err error)
	delay func(time.Duration) (mend func() error, err error)
}

// switchPath leads across the switch.
func switchPath(b *testing.B) path {
	p := path{name: "switch", machine: [2]machine{newMachine(b), newMachine(b)}, target: addressOf(1)}
	s := vnet.New(vnet.Config{})
	b.Cleanup(func() { _ = s.Close() })
	for i, m := range p.machine {
		if _, err := s.Attach(vnet.PortConfig{Name: fmt.Sprint(i), NetnsFile: m.ns, Addrs: addresses[i : i+1]}); err != nil {
			b.Fatal(err)
		}
	}
	impair := func(imp vnet.Impairment) (func() error, error) {
		id, err := s.Impair(vnet.Rule{Links: []vnet.Link{{From: "0", To: "1"}}, Impairment: imp})
		return func() error { s.Remove(id); return nil }, err
	}
	p.cut = func() (func() error, error) { return impair(vnet.Impairment{Cut: true}) }
	p.delay = func(d time.Duration) (func() error, error) { return impair(vnet.Impairment{Delay: d}) }
	return p
}

// nftablesPath leads across a veth pair; a rule at its end drops packets.
func nftablesPath(b *testing.B) path {
	p := path{name: "nftables", machine: [2]machine{newMachine(b), newMachine(b)}, target: addressOf(1)}
	err := p.machine[0].in(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "eth0"
		err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(p.machine[1].ns.Fd()))})
		if err != nil {
			return err
		}
		return configure(addresses[0])
	})
	if err == nil {
		err = p.machine[1].in(func() error { return configure(addresses[1]) })
	}
	if err != nil {
		b.Skipf("no veth pair for nftables: %v", err)
	}
	conn, err := nftables.New(nftables.WithNetNSFd(int(p.machine[1].ns.Fd())), nftables.AsLasting())
	if err != nil {
		b.Skipf("nftables is not available: %v", err)
	}
	b.Cleanup(func() { _ = conn.CloseLasting() })
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "bench"})
	chain := conn.AddChain(&nftables.Chain{Table: table, Name: "input", Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter})
	if err := conn.Flush(); err != nil {
		b.Skipf("nftables is not available in this kernel (CONFIG_NF_TABLES): %v", err)
	}
	p.cut = func() (func() error, error) {
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop}}})
		if err := conn.Flush(); err != nil {
			return nil, err
		}
		return func() error { conn.FlushChain(chain); return conn.Flush() }, nil
	}
	return p
}

func configure(addr netip.Prefix) error {
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	ip := &net.IPNet{IP: addr.Addr().AsSlice(), Mask: net.CIDRMask(addr.Bits(), 32)}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ip}); err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// toxiproxyPath leads through a proxy in this process, across the loopback
// device.
func toxiproxyPath(b *testing.B) path {
	p := path{name: "toxiproxy", target: "127.0.0.1:5002"}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, "bench", p.target, fmt.Sprintf("127.0.0.1:%d", port))
	if err := proxy.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(proxy.Stop)
	toxic := func(kind string, attributes map[string]any) (func() error, error) {
		text, err := json.Marshal(map[string]any{"name": kind, "type": kind, "stream": "upstream", "attributes": attributes})
		if err != nil {
			return nil, err
		}
		if _, err := proxy.Toxics.AddToxicJson(bytes.NewReader(text)); err != nil {
			return nil, err
		}
		return func() error { return proxy.Toxics.RemoveToxic(b.Context(), kind) }, nil
	}
	// Its toxic "timeout" closes the connection when it is removed. With a bandwidth of 0 nothing
	// passes either, and the connection stays open.
	p.cut = func() (func() error, error) { return toxic("bandwidth", map[string]any{"rate": 0}) }
	p.delay = func(d time.Duration) (func() error, error) {
		return toxic("latency", map[string]any{"latency": d.Milliseconds(), "jitter": 0})
	}
	return p
}

func addressOf(i int) string { return netip.AddrPortFrom(addresses[i].Addr(), port).String() }

// in calls do at one end.
func (p path) in(end int, do func() error) error {
	if p.machine[end].ns == nil {
		return do()
	}
	return p.machine[end].in(do)
}

// tcp connects the ends.
func (p path) tcp(b *testing.B) (out, in net.Conn) {
	b.Helper()
	var l net.Listener
	err := p.in(1, func() (err error) {
		l, err = net.Listen("tcp4", fmt.Sprintf(":%d", port))
		return err
	})
	if err == nil {
		defer l.Close()
		err = p.in(0, func() (err error) {
			out, err = net.DialTimeout("tcp4", p.target, 5*time.Second)
			return err
		})
	}
	if err == nil {
		in, err = l.Accept()
	}
	if err != nil {
		b.Fatal(err)
	}
	return out, in
}

// udp connects the ends.
func (p path) udp(b *testing.B) (out, in net.Conn) {
	b.Helper()
	err := p.in(1, func() (err error) {
		in, err = net.ListenUDP("udp4", &net.UDPAddr{Port: port})
		return err
	})
	if err == nil {
		err = p.in(0, func() (err error) {
			out, err = net.Dial("udp4", p.target)
			return err
		})
	}
	if err != nil {
		b.Fatal(err)
	}
	return out, in
}

// ways has all paths, starting with the switch's, which the others are compared with.
var ways = []struct {
	name string
	make func(*testing.B) path
}{{"switch", switchPath}, {"nftables", nftablesPath}, {"toxiproxy", toxiproxyPath}}

// BenchmarkCut sends a message every 100 µs. It measures the time from the call of a cut until
// the first held-up message after which none arrived (effect), and from the call of its healing
// until the first message arrived (heal). The switch and nftables carry datagrams; toxiproxy
// supports only connections. x is the ratio of the median to the switch's.
func BenchmarkCut(b *testing.B) {
	sandboxtest.Need(b)
	const samples = 100
	var baseEffect, baseHeal time.Duration
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			p := way.make(b)
			connect := p.udp
			if p.name == "toxiproxy" {
				connect = p.tcp
			}
			s, stop := newStream(b, connect, 100*time.Microsecond)
			defer stop()
			var effect, heal []time.Duration
			for range samples {
				s.settle(b, 20)
				called := s.now()
				mend, err := p.cut()
				if err != nil {
					b.Fatal(err)
				}
				time.Sleep(20 * time.Millisecond)
				last := s.last()
				time.Sleep(5 * time.Millisecond)
				if s.last() != last {
					b.Fatal("messages come 20 ms after the cut")
				}
				effect = append(effect, max(last, s.heldUp())-called)
				called = s.now()
				if err := mend(); err != nil {
					b.Fatal(err)
				}
				s.settle(b, 1)
				heal = append(heal, s.after(called)[0].came-called)
			}
			report(b, "effect", effect, &baseEffect)
			report(b, "heal", heal, &baseHeal)
		})
	}
}

// BenchmarkLatency measures what a latency of 20 ms does to a connection with a message every
// millisecond: effect is the time from the call until the first late message was sent, and error
// is how much the median and the 99th percentile of the delays are off, including the path's own
// delay. x is the ratio of the median's error to the switch's.
func BenchmarkLatency(b *testing.B) {
	sandboxtest.Need(b)
	const asked, messages = 20 * time.Millisecond, 3000
	var base, baseEffect time.Duration
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			p := way.make(b)
			if p.delay == nil {
				b.Skip("delays nothing by itself: that takes netem")
			}
			s, stop := newStream(b, p.tcp, time.Millisecond)
			defer stop()
			var effect []time.Duration
			for range 30 {
				s.settle(b, 20)
				called := s.now()
				mend, err := p.delay(asked)
				if err != nil {
					b.Fatal(err)
				}
				s.settle(b, 30)
				effect = append(effect, firstLate(b, s.after(called), asked)-called)
				if err := mend(); err != nil {
					b.Fatal(err)
				}
			}
			s.settle(b, 50)
			if _, err := p.delay(asked); err != nil {
				b.Fatal(err)
			}
			s.settle(b, 100) // messages that were in flight
			from := s.now()
			s.settle(b, messages)
			var off []time.Duration
			for _, a := range s.after(from) {
				off = append(off, a.came-a.sent-asked)
			}
			report(b, "error", off, &base)
			report(b, "effect", effect, &baseEffect)
		})
	}
}

// firstLate returns when the first delayed message was sent.
func firstLate(b *testing.B, all []arrival, by time.Duration) time.Duration {
	b.Helper()
	for _, a := range all {
		if a.came-a.sent >= by {
			return a.sent
		}
	}
	b.Fatal("no message is delayed")
	return 0
}

// report adds the quantiles of some durations to a benchmark, and the ratio of the median to the
// first one reported with this base.
func report(b *testing.B, what string, all []time.Duration, base *time.Duration) {
	p50, p99 := quantiles(all)
	if *base == 0 {
		*base = max(p50, time.Microsecond)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(micros(p50), what+"-p50-µs")
	b.ReportMetric(micros(p99), what+"-p99-µs")
	b.ReportMetric(float64(p50)/float64(*base), what+"-x")
}
