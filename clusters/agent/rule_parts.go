package agent

import (
	"encoding/binary"
	"math"
	"net"
	"net/netip"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Parts of rules.

func to(kind expr.VerdictKind, chain string) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: kind, Chain: chain}}
}

func metaIs(key expr.MetaKey, op expr.CmpOp, value byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: op, Register: 1, Data: []byte{value}}}
}

func leavesBy(device int) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyOIF, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(uint32(device))},
	}
}

// onLoopback matches packets that do not leave the node.
func onLoopback(out bool) []expr.Any {
	key := expr.MetaKeyIIFTYPE
	if out {
		key = expr.MetaKeyOIFTYPE
	}
	return []expr.Any{
		&expr.Meta{Key: key, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint16(unix.ARPHRD_LOOPBACK)},
	}
}

func protocolIs(protocol byte) []expr.Any {
	return metaIs(expr.MetaKeyL4PROTO, expr.CmpOpEq, protocol)
}

func portIs(offset uint32, port uint16) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, port)},
	}
}

func tcpFlag(flag byte) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{flag}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{0}},
	}
}

// addressIn matches the source or destination address of a packet.
func addressIn(prefix netip.Prefix, destination bool) []expr.Any {
	family := byte(unix.NFPROTO_IPV4)
	if prefix.Addr().Is6() {
		family = unix.NFPROTO_IPV6
	}
	return append(metaIs(expr.MetaKeyNFPROTO, expr.CmpOpEq, family), payloadIn(prefix, destination)...)
}

// payloadIn is addressIn for packets that are known to be of the prefix's family.
func payloadIn(prefix netip.Prefix, destination bool) []expr.Any {
	offset, size := uint32(12), uint32(4)
	if prefix.Addr().Is6() {
		offset, size = 8, 16
	}
	if destination {
		offset += size
	}
	all := []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size}}
	if prefix.Bits() < prefix.Addr().BitLen() {
		all = append(all, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size,
			Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()), Xor: make([]byte, size)})
	}
	return append(all, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: prefix.Masked().Addr().AsSlice()})
}

// condemn marks a packet with a priority.
func condemn(to uint32) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: binaryutil.NativeEndian.PutUint32(to)},
		&expr.Meta{Key: expr.MetaKeyPRIORITY, SourceRegister: true, Register: 1},
	}
}

func condemned(to uint32) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyPRIORITY, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(to)},
	}
}

// chance matches a share of the packets, each separately.
func chance(share float64) []expr.Any {
	if share >= 1 {
		return nil
	}
	const all = math.MaxInt32
	return []expr.Any{
		&expr.Numgen{Register: 1, Modulus: all, Type: unix.NFT_NG_RANDOM},
		// Comparison is bytewise, first byte first.
		&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4},
		&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binaryutil.BigEndian.PutUint32(uint32(share * all))},
	}
}
