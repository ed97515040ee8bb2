package fault

import (
	"context"
	"net/netip"
	"slices"

	"github.com/holdfast-ha/holdfast/framework"
)

// DNSWrong makes the name service give wrong answers.
var DNSWrong Fault = dnsWrong{}

type dnsWrong struct{}

func (dnsWrong) Name() string { return "dns-wrong" }

func (dnsWrong) Doc() Doc {
	return Doc{
		Summary: "makes the name service give hosts a wrong address, or deny that there is such a name",
		Targets: namesTargets,
		Params: map[string]string{
			"names":   namesParam,
			"address": "the IPv4 address that is given; default NXDOMAIN: there is no such name",
		},
		Needs:   []string{"NameServiceFaulter"},
		Example: "node/2 address=10.77.0.99",
	}
}

func (f dnsWrong) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.misleading(c, t, p)
	return err
}

func (f dnsWrong) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	m, err := f.misleading(c, t, p)
	if err != nil {
		return nil, err
	}
	return m.inject(ctx, "wrong names for "+t.String())
}

func (f dnsWrong) misleading(c framework.Cluster, t Target, p Params) (*misleading, error) {
	m, err := newMisleading(f, c, t, p)
	if err != nil {
		return nil, err
	}
	text := p.Values["address"]
	if text == "" || text == "NXDOMAIN" {
		m.disturb.NotFound, m.led = true, notFound
		return m, nil
	}
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Is4() {
		return nil, badParam(f, p, "address", "an IPv4 address, such as 10.77.0.99, or NXDOMAIN")
	}
	m.disturb.Address = address
	m.led = func(l framework.Lookup) bool { return slices.Contains(l.Addresses, address) }
	return m, nil
}
