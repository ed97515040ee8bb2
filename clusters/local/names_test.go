package local

import (
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/balancer"
	"github.com/holdfast-ha/holdfast/framework"
)

// TestPassOn: a name that another name server knows, with the faults of this one.
func TestPassOn(t *testing.T) {
	own, other, client := netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3"), netip.MustParseAddr("127.0.0.1")
	s, err := startNameServer(own)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	b, err := balancer.Start(balancer.Config{Listen: hostPort(other, dnsPort), Names: []string{"api.test.holdfast"},
		Backends:    []balancer.Backend{{Name: "one", Address: "10.0.0.1:6443"}, {Name: "two", Address: "10.0.0.2:6443"}},
		HealthCheck: clusters.HealthCheck{Disabled: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s.add("api.test.holdfast", other)
	s.add("node-1", netip.MustParseAddr("10.0.0.9"))
	s.ask("api.test.holdfast", other)
	ask := func(name string) (rcode int, addrs []string) {
		t.Helper()
		answer, err := dns.Exchange(new(dns.Msg).SetQuestion(name+".", dns.TypeA), hostPort(own, dnsPort))
		if err != nil {
			t.Fatal(err)
		}
		for _, rr := range answer.Answer {
			addrs = append(addrs, rr.(*dns.A).A.String())
			if rr.Header().Ttl != 1 {
				t.Errorf("%s may be kept for %d s", name, rr.Header().Ttl)
			}
		}
		return answer.Rcode, addrs
	}
	if rcode, addrs := ask("api.test.holdfast"); rcode != dns.RcodeSuccess || len(addrs) != 2 {
		t.Errorf("the balancer's name: %d, %v", rcode, addrs)
	}
	if _, addrs := ask("node-1"); len(addrs) != 1 || addrs[0] != "10.0.0.9" {
		t.Errorf("another name: %v", addrs)
	}
	wrong := s.disturb([]netip.Addr{client}, framework.NameDisturbance{Address: netip.MustParseAddr("10.9.9.9")}, time.Minute)
	if _, addrs := ask("api.test.holdfast"); len(addrs) != 1 || addrs[0] != "10.9.9.9" {
		t.Errorf("led astray: %v", addrs)
	}
	s.restore(wrong)
	denied := s.disturb([]netip.Addr{client}, framework.NameDisturbance{NotFound: true}, time.Minute)
	if rcode, _ := ask("api.test.holdfast"); rcode != dns.RcodeNameError {
		t.Errorf("denied: %d", rcode)
	}
	s.restore(denied)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if rcode, addrs := ask("api.test.holdfast"); rcode != dns.RcodeServerFailure {
		t.Errorf("its name server is gone: %d, %v", rcode, addrs)
	}
}
