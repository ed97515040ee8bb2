package fault

import (
	"net/netip"
	"slices"

	"github.com/holdfast-ha/holdfast/framework"
)

// noSuchName is the answer that a name does not exist.
const noSuchName = "NXDOMAIN"

// DNSWrong makes DNS give wrong answers.
var DNSWrong = onNames(&Fault{
	Name:    "dns-wrong",
	Summary: "makes DNS give hosts a wrong address, or deny that a name exists",
	Params: []Param{{Name: "address", Doc: "the wrong answer: NXDOMAIN (no such name), or an address that the name does not have", Default: noSuchName,
		Allowed: "an IPv4 address, such as 10.77.0.99, or " + noSuchName,
		Parse: func(v string) (any, bool) {
			if v == "" || v == noSuchName {
				return netip.Addr{}, true
			}
			address, err := netip.ParseAddr(v)
			return address, err == nil && address.Is4()
		}}},
	Example: "node/2 address=10.77.0.99",
}, func(r Request) (framework.NameDisturbance, func(framework.Lookup) bool) {
	address := Value[netip.Addr](r, "address")
	if !address.IsValid() {
		return framework.NameDisturbance{NotFound: true}, notFound
	}
	return framework.NameDisturbance{Address: address}, func(l framework.Lookup) bool { return slices.Contains(l.Addresses, address) }
})
