package agent

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// frames is the table that redirects the frames of links through user space. It is replaced as
// a whole in one transaction, by hand-written messages: the library does not know the
// expression that forwards a frame to another device (fwd).
type frames struct {
	messages []netlink.Message
	err      error
}

const framesTable = "holdfast-detour"

// detoured is the priority of frames that come back from user space.
const detoured = 0x68646f6e

func newFrames() *frames {
	f := &frames{}
	for _, kind := range []int{unix.NFT_MSG_NEWTABLE, unix.NFT_MSG_DELTABLE, unix.NFT_MSG_NEWTABLE} {
		f.add(kind, attribute(unix.NFTA_TABLE_NAME, framesTable))
	}
	return f
}

func attribute(kind uint16, value string) netlink.Attribute {
	return netlink.Attribute{Type: kind, Data: append([]byte(value), 0)}
}

func number(kind uint16, value uint32) netlink.Attribute {
	return netlink.Attribute{Type: kind, Data: binary.BigEndian.AppendUint32(nil, value)}
}

func (f *frames) nested(kind uint16, inner ...netlink.Attribute) netlink.Attribute {
	return netlink.Attribute{Type: unix.NLA_F_NESTED | kind, Data: f.marshal(inner)}
}

func (f *frames) marshal(attributes []netlink.Attribute) []byte {
	b, err := netlink.MarshalAttributes(attributes)
	if err != nil {
		f.err = err
	}
	return b
}

func (f *frames) add(kind int, attributes ...netlink.Attribute) {
	flags := netlink.Request | netlink.Acknowledge
	if kind != unix.NFT_MSG_DELTABLE {
		flags |= netlink.Create | netlink.Append
	}
	f.messages = append(f.messages, netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind), Flags: flags},
		Data:   append([]byte{unix.NFPROTO_NETDEV, unix.NFNETLINK_V0, 0, 0}, f.marshal(attributes)...),
	})
}

// chain adds a chain for frames that enter by a device, or that leave by it.
func (f *frames) chain(name, device string, out bool) {
	hook := *nftables.ChainHookIngress
	if out {
		hook = *nftables.ChainHookEgress
	}
	f.add(unix.NFT_MSG_NEWCHAIN,
		attribute(unix.NFTA_CHAIN_TABLE, framesTable), attribute(unix.NFTA_CHAIN_NAME, name), attribute(unix.NFTA_CHAIN_TYPE, "filter"),
		f.nested(unix.NFTA_CHAIN_HOOK, number(unix.NFTA_HOOK_HOOKNUM, uint32(hook)), number(unix.NFTA_HOOK_PRIORITY, 0),
			attribute(unix.NFTA_HOOK_DEV, device)))
}

// rule adds a rule that finally forwards the frame to a device, or, with device 0, lets it
// continue.
func (f *frames) rule(chain string, device int, match ...[]expr.Any) {
	var list []netlink.Attribute
	element := func(b []byte) {
		list = append(list, netlink.Attribute{Type: unix.NLA_F_NESTED | unix.NFTA_LIST_ELEM, Data: b})
	}
	put := func(e expr.Any) {
		b, err := expr.Marshal(unix.NFPROTO_NETDEV, e)
		if err != nil {
			f.err = err
		}
		element(b)
	}
	for _, part := range match {
		for _, e := range part {
			put(e)
		}
	}
	if device == 0 {
		put(&expr.Verdict{Kind: expr.VerdictAccept})
	} else {
		put(&expr.Immediate{Register: 1, Data: binaryutil.NativeEndian.PutUint32(uint32(device))})
		element(f.marshal([]netlink.Attribute{attribute(unix.NFTA_EXPR_NAME, "fwd"),
			f.nested(unix.NFTA_EXPR_DATA, number(unix.NFTA_FWD_SREG_DEV, unix.NFT_REG_1))}))
	}
	f.add(unix.NFT_MSG_NEWRULE, attribute(unix.NFTA_RULE_TABLE, framesTable), attribute(unix.NFTA_RULE_CHAIN, chain),
		netlink.Attribute{Type: unix.NLA_F_NESTED | unix.NFTA_RULE_EXPRESSIONS, Data: f.marshal(list)})
}

// frameOf matches the source or destination address of a frame.
func frameOf(prefix netip.Prefix, destination bool) []expr.Any {
	etherType := uint16(unix.ETH_P_IP)
	if prefix.Addr().Is6() {
		etherType = unix.ETH_P_IPV6
	}
	return append([]expr.Any{
		&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, etherType)},
	}, payloadIn(prefix, destination)...)
}

// flush replaces the existing table.
func (f *frames) flush() error {
	if f.err != nil {
		return f.err
	}
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = enlarge(conn)
	return f.send(conn)
}

// send sends the messages in one transaction.
func (f *frames) send(conn *netlink.Conn) error {
	edge := func(kind int) netlink.Message {
		return netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(kind), Flags: netlink.Request},
			Data: []byte{0, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES}}
	}
	all := append([]netlink.Message{edge(unix.NFNL_MSG_BATCH_BEGIN)}, f.messages...)
	if _, err := conn.SendMessages(append(all, edge(unix.NFNL_MSG_BATCH_END))); err != nil {
		return fmt.Errorf("failed to change nftables: %w", err)
	}
	for range f.messages {
		if _, err := conn.Receive(); err != nil {
			return fmt.Errorf("failed to change nftables: %w", err)
		}
	}
	return nil
}
