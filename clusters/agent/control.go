package agent

import (
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/framework"
)

// control are the ports through which the harness reaches the agents.
type control struct {
	own    uint16   // see Config.ControlPort; 0 for none
	others []uint16 // see Config.PeerControlPorts
}

// exempt returns what matches the traffic that no impairment affects, one element for each rule.
// Without the harness's traffic with the control ports it could neither heal the nodes nor keep
// their leashes. address matches the source or destination of a packet.
func exempt(peers []Peer, ports control, out bool, address func(netip.Prefix, bool) []expr.Any) (all [][]expr.Any) {
	const source, destination = 0, 2 // offsets of the ports
	own, other := uint32(destination), uint32(source)
	if out {
		own, other = source, destination
	}
	match := func(parts ...[]expr.Any) { all = append(all, slices.Concat(parts...)) }
	for _, prefix := range prefixesOf(peers, framework.HarnessHost) {
		if ports.own != 0 {
			match(address(prefix, out), protocolIs(unix.IPPROTO_TCP), portIs(own, ports.own))
		}
		// The harness, or its jump host, may be this very node, from which it reaches the ports of
		// the other nodes.
		for _, port := range ports.others {
			match(address(prefix, !out), protocolIs(unix.IPPROTO_TCP), portIs(other, port))
		}
	}
	// For IPv6, what ARP is for IPv4, which no rule matches.
	for _, kind := range []byte{neighborSolicitation, neighborAdvertisement} {
		match(protocolIs(unix.IPPROTO_ICMPV6), icmpIs(kind))
	}
	return all
}

// Types of ICMPv6 (RFC 4861).
const (
	neighborSolicitation  = 135
	neighborAdvertisement = 136
)

func icmpIs(kind byte) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{kind}},
	}
}
