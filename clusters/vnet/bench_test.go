package vnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/sandbox/sandboxtest"
)

// BenchmarkAgainstBridge measures TCP between two network namespaces across a
// kernel bridge with veth pairs and across the switch, in turns in one run, and
// reports the switch's figures and their ratio to the bridge's.
//
//	go test -run '^$' -bench AgainstBridge ./clusters/vnet
func BenchmarkAgainstBridge(b *testing.B) {
	const rounds = 5
	pairs := map[string]pair{"bridge": bridgePair(b)}
	for _, backend := range []Backend{TAP, Packet} {
		l := New(Config{})
		b.Cleanup(func() { l.Close() })
		p, err := switchPair(b, l, backend)
		if errors.Is(err, errNoTAP) {
			b.Logf("no TAP: %v", err)
			continue
		}
		if err != nil {
			b.Fatal(err)
		}
		pairs[string(backend)] = p
	}
	trips, tails, rates := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for b.Loop() {
		for range rounds {
			for name, p := range pairs {
				p50, p99 := roundTrips(b, p, 2000)
				trips[name] = append(trips[name], p50)
				tails[name] = append(tails[name], p99)
				rates[name] = append(rates[name], throughput(b, p, 256<<20))
			}
		}
	}
	for _, name := range []string{"bridge", string(TAP), string(Packet)} {
		if pairs[name] == (pair{}) {
			continue
		}
		b.ReportMetric(median(trips[name]), name+"-p50-µs")
		b.ReportMetric(median(tails[name]), name+"-p99-µs")
		b.ReportMetric(median(rates[name]), name+"-Gbit/s")
		if name != "bridge" {
			b.ReportMetric(median(trips[name])/median(trips["bridge"]), name+"-p50-ratio")
			b.ReportMetric(median(rates[name])/median(rates["bridge"]), name+"-throughput-ratio")
		}
	}
	b.ReportMetric(0, "ns/op") // means nothing here
}

// pair is two connected namespaces.
type pair struct {
	a, b *os.File
}

var benchAddr = [2]netip.Addr{netip.MustParseAddr("10.78.0.1"), netip.MustParseAddr("10.78.0.2")}

func benchNetns(b testing.TB) *os.File {
	ns, err := newNetns()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { ns.Close() })
	return ns
}

func switchPair(b testing.TB, s *Switch, backend Backend) (pair, error) {
	sandboxtest.Need(b)
	p := pair{benchNetns(b), benchNetns(b)}
	for i, ns := range []*os.File{p.a, p.b} {
		_, err := s.Attach(PortConfig{
			Name: fmt.Sprint(i), NetnsFile: ns, Backend: backend,
			Addrs: []netip.Prefix{netip.PrefixFrom(benchAddr[i], 24)},
		})
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

func bridgePair(b testing.TB) pair {
	sandboxtest.Need(b)
	p := pair{benchNetns(b), benchNetns(b)}
	err := withNetlink(benchNetns(b), func(h *netlink.Handle) error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "br0"
		bridge := &netlink.Bridge{LinkAttrs: attrs}
		if err := h.LinkAdd(bridge); err != nil {
			return err
		}
		for i, ns := range []*os.File{p.a, p.b} {
			attrs := netlink.NewLinkAttrs()
			attrs.Name, attrs.MasterIndex = fmt.Sprintf("port%d", i), bridge.Index
			veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(ns.Fd()))}
			if err := errors.Join(h.LinkAdd(veth), h.LinkSetUp(veth)); err != nil {
				return err
			}
			c := &PortConfig{
				Device: "eth0", MTU: 1500, MAC: []byte{2, 0, 0, 0, 9, byte(i)},
				Addrs: []netip.Prefix{netip.PrefixFrom(benchAddr[i], 24)},
			}
			if err := withNetlink(ns, func(h *netlink.Handle) error { return configure(h, c) }); err != nil {
				return err
			}
		}
		return h.LinkSetUp(bridge)
	})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// connect makes a TCP connection of blocking sockets, so that what is measured
// is the network and not Go's poller.
func connect(b testing.TB, p pair) (client, server int) {
	b.Helper()
	listener := -1
	server = -1
	addr := &unix.SockaddrInet4{Port: 5001, Addr: benchAddr[1].As4()}
	socket := func() (int, error) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		return fd, errors.Join(unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_NODELAY, 1),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	}
	err := inNetns(p.b, func() (err error) {
		if listener, err = socket(); err != nil {
			return err
		}
		return errors.Join(unix.Bind(listener, addr), unix.Listen(listener, 1))
	})
	if err == nil {
		defer unix.Close(listener)
		err = inNetns(p.a, func() (err error) {
			if client, err = socket(); err != nil {
				return err
			}
			return unix.Connect(client, addr)
		})
	}
	if err == nil {
		server, _, err = unix.Accept(listener)
	}
	if err == nil {
		err = unix.SetsockoptInt(server, unix.SOL_TCP, unix.TCP_NODELAY, 1)
	}
	if err != nil {
		b.Fatal(err)
	}
	return client, server
}

// roundTrips returns the median and 99th percentile of TCP round trips in µs.
func roundTrips(b testing.TB, p pair, n int) (p50, p99 float64) {
	client, server := connect(b, p)
	defer unix.Close(client)
	go func() {
		defer unix.Close(server)
		for one := make([]byte, 1); ; {
			if k, err := unix.Read(server, one); k != 1 || err != nil {
				return
			}
			if _, err := unix.Write(server, one); err != nil {
				return
			}
		}
	}()
	var took []float64
	one := []byte{1}
	for i := range n {
		start := time.Now()
		if _, err := unix.Write(client, one); err != nil {
			b.Fatal(err)
		}
		if _, err := unix.Read(client, one); err != nil {
			b.Fatal(err)
		}
		if i >= n/10 {
			took = append(took, float64(time.Since(start).Nanoseconds())/1e3)
		}
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100]
}

// throughput returns how fast n bytes go one way, in Gbit/s.
func throughput(b testing.TB, p pair, n int) float64 {
	client, server := connect(b, p)
	defer unix.Close(server)
	start := time.Now()
	go func() {
		defer unix.Close(client)
		buf := make([]byte, 128<<10)
		for left := n; left > 0; {
			k, err := unix.Write(client, buf[:min(left, len(buf))])
			if err != nil {
				return
			}
			left -= k
		}
	}()
	buf := make([]byte, 128<<10)
	got := 0
	for got < n {
		k, err := unix.Read(server, buf)
		if err != nil || k == 0 {
			b.Fatalf("after %d of %d bytes: %v", got, n, err)
		}
		got += k
	}
	return float64(n) * 8 / 1e9 / time.Since(start).Seconds()
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

// BenchmarkDelay sends 1,000 packets a second over a link with 20 ms of delay
// and reports how much later than sent they come. For comparison it reports the
// same without a delay.
func BenchmarkDelay(b *testing.B) {
	for _, delay := range []time.Duration{0, 20 * time.Millisecond} {
		b.Run(delay.String(), func(b *testing.B) {
			s := New(Config{})
			defer s.Close()
			p, err := switchPair(b, s, Auto)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := s.Impair(Rule{Links: []Link{{From: "0", To: "1"}}, Impairment: Impairment{Delay: delay}}); err != nil {
				b.Fatal(err)
			}
			client, server := connect(b, p)
			defer unix.Close(server)
			const n = 2000
			var took []float64
			for b.Loop() {
				start := time.Now()
				go func() {
					buf := make([]byte, 8)
					for i := range n {
						time.Sleep(time.Until(start.Add(time.Duration(i) * time.Millisecond)))
						binary.NativeEndian.PutUint64(buf, uint64(time.Since(start)))
						_, _ = unix.Write(client, buf)
					}
				}()
				buf := make([]byte, 8)
				for range n {
					if k, _, err := unix.Recvfrom(server, buf, unix.MSG_WAITALL); k != 8 || err != nil {
						b.Fatal(k, err)
					}
					took = append(took, float64(time.Since(start)-time.Duration(binary.NativeEndian.Uint64(buf)))/1e6)
				}
			}
			unix.Close(client)
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2], "p50-ms")
			b.ReportMetric(took[len(took)*99/100], "p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
