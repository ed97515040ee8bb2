package clusters

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
)

// FurtherListeners returns where the etcd member on a node listens according to its flags, apart
// from its serving endpoints. Only the node's own address counts: nothing shows whose another one
// is. A member that listens at all addresses does so at that one.
func FurtherListeners(node netip.Addr, flag func(name string) string, serving []framework.ServingEndpoint) (all []framework.ServingEndpoint) {
	for _, f := range []struct{ flag, endpoint string }{
		{"listen-client-urls", "client"}, {"listen-client-http-urls", "client"}, {"listen-peer-urls", "peer"},
	} {
		for text := range strings.SplitSeq(flag(f.flag), ",") {
			u, err := url.Parse(strings.TrimSpace(text))
			if err != nil {
				continue
			}
			at, err := netip.ParseAddrPort(u.Host)
			if u.Hostname() == "" {
				at, err = netip.ParseAddrPort("0.0.0.0:" + u.Port())
			}
			if err != nil || !at.Addr().IsUnspecified() && at.Addr() != node {
				continue
			}
			address := netip.AddrPortFrom(node, at.Port()).String()
			known := func(e framework.ServingEndpoint) bool { return e.Address == address }
			if !slices.ContainsFunc(serving, known) && !slices.ContainsFunc(all, known) {
				all = append(all, framework.ServingEndpoint{Name: f.endpoint, Address: address})
			}
		}
	}
	return all
}
