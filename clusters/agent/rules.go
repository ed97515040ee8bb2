package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/framework"
)

// The agent has one table for packets, and one for frames. Packets pass the packet table's base
// chains where their addresses and ports are those on the wire and conntrack knows their
// connection. Each chain of base first sends them through the chains of every active impairment
// of their peer. Those count and condemn; condemned packets are dropped at the end, so that
// each of two impairments on one link counts as if it were alone. The other packets are counted
// as delivered.
//
// If a packet from a program of this node were dropped there, the program would see an error
// (EPERM). So it is dropped as a frame, on its way out of the device, if the kernel supports
// that (5.16 and later).

// base is a hook at which packets are examined.
type base struct {
	name     string
	hook     *nftables.ChainHook
	priority nftables.ChainPriority
	out      bool
}

func bases() []base {
	return []base{
		{"in", nftables.ChainHookPrerouting, *nftables.ChainPriorityConntrack + 10, false},
		{"out", nftables.ChainHookOutput, *nftables.ChainPriorityNATSource + 200, true},
		// Packets from pods, which are behind the node.
		{"through", nftables.ChainHookForward, *nftables.ChainPriorityNATSource + 200, true},
	}
}

func table() *nftables.Table {
	return &nftables.Table{Name: "holdfast", Family: nftables.TableFamilyINet}
}

// Packets are condemned by a priority (SO_PRIORITY) that is not used elsewhere. None of them
// reaches a queue, where it would have a meaning; another program may use packet marks.
const (
	condemnedToDrop  = 0x686f6c64
	condemnedToReset = 0x66617374
)

// batch is a change of the table in one transaction.
type batch struct {
	*nftables.Conn
	table *nftables.Table
	// answered changes the kernel's answer, in tests.
	answered func(error) error
}

// Flush sends the batch. An error that is ENOBUFS does not say whether the kernel carried it out.
func (b *batch) Flush() error {
	err := b.Conn.Flush()
	if b.answered != nil {
		err = b.answered(err)
	}
	return err
}

// buffers is the size of the buffers for a batch and for the kernel's answers to it, one for each change.
// The usual one holds the answers on about ten links, and a batch with the addresses of about a hundred
// workers, beyond which the kernel refuses it with EMSGSIZE; a larger one needs privileges in the first
// user namespace.
const buffers = 4 << 20

// enlarge sets the buffers of a connection to the kernel, as far as it may.
func enlarge(c *netlink.Conn) error {
	_ = c.SetReadBuffer(buffers)
	_ = c.SetWriteBuffer(buffers)
	return nil
}

func newBatch() (*batch, error) {
	conn, err := nftables.New(nftables.WithSockOptions(enlarge))
	if err != nil {
		return nil, err
	}
	return &batch{Conn: conn, table: table()}, nil
}

func (b *batch) chain(name string) *nftables.Chain {
	return &nftables.Chain{Table: b.table, Name: name}
}

func (b *batch) rule(chain string, parts ...[]expr.Any) {
	b.AddRule(&nftables.Rule{Table: b.table, Chain: b.chain(chain), Exprs: slices.Concat(parts...)})
}

func (b *batch) counter(name string) {
	b.AddObj(&nftables.NamedObj{Table: b.table, Name: name, Type: nftables.ObjTypeCounter, Obj: &expr.Counter{}})
}

func (b *batch) removeCounter(name string) {
	b.DeleteObject(&nftables.NamedObj{Table: b.table, Name: name, Type: nftables.ObjTypeCounter, Obj: &expr.Counter{}})
}

// counters reads all counters, in packets.
func (b *batch) counters() (map[string]uint64, error) {
	all, err := b.GetNamedObjects(b.table)
	if err != nil {
		return nil, fmt.Errorf("failed to read the counters of nftables: %w", err)
	}
	packets := map[string]uint64{}
	for _, o := range all {
		if named, ok := o.(*nftables.NamedObj); ok {
			if c, ok := named.Obj.(*expr.Counter); ok {
				packets[named.Name] = c.Packets
			}
		}
	}
	return packets, nil
}

// Names of counters. The name of a path's counter contains its handle.
const (
	matched = "matched"
	dropped = "dropped"
	resets  = "resets"
	// passed counts packets after the drop; dropped are those condemned to it.
	passed = "passed"
)

// counts are the counters of a path.
func counts() []string { return []string{matched, dropped, resets, passed} }

func pathName(handle string, path int) string { return fmt.Sprintf("h-%s-%d", handle, path) }

func counterName(handle string, path int, what string) string {
	return pathName(handle, path) + " " + what
}

// handleOf returns the handle in the name of a path's counter.
func handleOf(counter string) (string, bool) {
	path, _, ok := strings.Cut(strings.TrimPrefix(counter, "h-"), " ")
	i := strings.LastIndexByte(path, '-')
	if !ok || !strings.HasPrefix(counter, "h-") || i < 0 {
		return "", false
	}
	return path[:i], true
}

// behindName names the chain that counts what has passed a path's impairment.
func behindName(handle string, path int) string { return pathName(handle, path) + "-behind" }

func passedName(peer string, out bool) string { return "passed " + linkName(peer, out) }

// linkName names a direction between the node and a peer.
func linkName(peer string, out bool) string {
	if out {
		return "to " + peer
	}
	return "from " + peer
}

func freshSet(handle string) string { return "h-" + handle + "-fresh" }

// begin creates the table again, without active impairments.
func (b *batch) begin() {
	// Deleting a table that does not exist would fail.
	b.AddTable(b.table)
	b.DelTable(b.table)
	b.AddTable(b.table)
	accept := nftables.ChainPolicyAccept
	for _, at := range bases() {
		b.AddChain(&nftables.Chain{Table: b.table, Name: at.name, Hooknum: at.hook, Type: nftables.ChainTypeFilter,
			Priority: nftables.ChainPriorityRef(at.priority), Policy: &accept})
	}
}

// addImpairment creates the chains of an impairment. They are inactive until dispatch refers to
// them. tell makes the kernel report what is reset.
func (b *batch) addImpairment(handle string, paths []Path, imp framework.Impairment, tell []expr.Any) error {
	if imp.Established {
		err := b.AddSet(&nftables.Set{Table: b.table, Name: freshSet(handle), KeyType: nftables.TypeInteger,
			Dynamic: true, HasTimeout: true, Timeout: freshTimeout, Size: freshLimit}, nil)
		if err != nil {
			return err
		}
	}
	for i, p := range paths {
		for _, what := range counts() {
			b.counter(counterName(handle, i, what))
		}
		b.act(b.narrow(pathName(handle, i), p.Ports), handle, i, imp, tell)
		b.behind(b.narrow(behindName(handle, i), p.Ports), handle, i, imp)
	}
	return nil
}

// narrow creates a chain for packets of some ports, and returns the chain that they go to.
func (b *batch) narrow(name string, ports []uint16) (act string) {
	act = name
	if len(ports) > 0 {
		act = name + "-act"
		b.AddChain(b.chain(act))
	}
	b.AddChain(b.chain(name))
	// With goto instead of jump, a packet returns to the base chain and does not match a second
	// port.
	for _, port := range ports {
		for _, protocol := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			for _, offset := range []uint32{0, 2} { // source, destination
				b.rule(name, protocolIs(protocol), portIs(offset, port), to(expr.VerdictGoto, act))
			}
		}
	}
	return act
}

// Limits of the connections that an impairment knows to be new. A forgotten connection counts
// as one that existed before.
const (
	freshTimeout = time.Hour
	freshLimit   = 1 << 15
)

// act fills the chain that applies an impairment to the packets of a path.
func (b *batch) act(chain, handle string, path int, imp framework.Impairment, tell []expr.Any) {
	count := func(what string) []expr.Any { return countIn(handle, path, what) }
	b.leaveOut(chain, handle, imp, true)
	b.rule(chain, count(matched))
	switch {
	case imp.Reset:
		b.rule(chain, count(dropped), count(resets), tell, condemn(condemnedToReset))
	case imp.Cut:
		b.rule(chain, count(dropped), condemn(condemnedToDrop))
	case imp.Loss > 0:
		b.rule(chain, chance(imp.Loss), count(dropped), condemn(condemnedToDrop))
	}
}

// behind fills the chain that counts the packets that passed the impairment.
func (b *batch) behind(chain, handle string, path int, imp framework.Impairment) {
	b.leaveOut(chain, handle, imp, false)
	b.rule(chain, countIn(handle, path, passed))
}

func countIn(handle string, path int, what string) []expr.Any {
	return []expr.Any{&expr.Objref{Type: int(nftables.ObjTypeCounter), Name: counterName(handle, path, what)}}
}

// leaveOut makes packets leave a chain if the impairment does not apply to them. If it learns,
// it remembers new connections.
func (b *batch) leaveOut(chain, handle string, imp framework.Impairment, learns bool) {
	const syn, rst = 0x02, 0x04
	if imp.Established || imp.Reset {
		b.rule(chain, metaIs(expr.MetaKeyL4PROTO, expr.CmpOpNeq, unix.IPPROTO_TCP), to(expr.VerdictReturn, ""))
	}
	if imp.Reset {
		b.rule(chain, tcpFlag(rst), to(expr.VerdictReturn, ""))
	}
	if !imp.Established {
		return
	}
	id := []expr.Any{&expr.Ct{Key: expr.CtKey(unix.NFT_CT_ID), Register: 1}}
	var learn []expr.Any
	if learns {
		learn = append(id, &expr.Dynset{SrcRegKey: 1, SetName: freshSet(handle), Operation: unix.NFT_DYNSET_OP_UPDATE})
	}
	b.rule(chain, tcpFlag(syn), learn, to(expr.VerdictReturn, ""))
	b.rule(chain, id, []expr.Any{&expr.Lookup{SourceRegister: 1, SetName: freshSet(handle)}}, to(expr.VerdictReturn, ""))
}

// removeImpairment removes what addImpairment created, once nothing refers to it.
func (b *batch) removeImpairment(handle string, paths []Path, imp framework.Impairment) {
	for i, p := range paths {
		for _, name := range []string{pathName(handle, i), behindName(handle, i)} {
			b.FlushChain(b.chain(name))
			b.DelChain(b.chain(name))
			if len(p.Ports) > 0 {
				b.FlushChain(b.chain(name + "-act"))
				b.DelChain(b.chain(name + "-act"))
			}
		}
		for _, what := range counts() {
			b.removeCounter(counterName(handle, i, what))
		}
	}
	if imp.Established {
		b.DelSet(&nftables.Set{Table: b.table, Name: freshSet(handle)})
	}
}

// force is an active impairment.
type force struct {
	handle string
	paths  []Path
}

// silence drops condemned packets on their way out of a device. Programs then see no error, as
// on a wire.
func (b *batch) silence(device string) {
	t := silenceTable()
	b.AddTable(t)
	b.DelTable(t)
	b.AddTable(t)
	out := b.AddChain(&nftables.Chain{Table: t, Name: "out", Hooknum: nftables.ChainHookEgress, Type: nftables.ChainTypeFilter,
		Priority: nftables.ChainPriorityFilter, Device: device})
	b.AddRule(&nftables.Rule{Table: t, Chain: out, Exprs: append(condemned(condemnedToDrop), to(expr.VerdictDrop, "")...)})
}

func silenceTable() *nftables.Table {
	return &nftables.Table{Name: "holdfast", Family: nftables.TableFamilyNetdev}
}

// silences reports whether silence is still in place.
func (b *batch) silences() bool {
	_, err := b.ListChain(silenceTable(), "out")
	return err == nil
}

// gone reports whether a table does not exist.
func (b *batch) gone(table *nftables.Table) (bool, error) {
	all, err := b.ListTablesOfFamily(table.Family)
	if err != nil {
		return false, fmt.Errorf("failed to list the tables of nftables: %w", err)
	}
	return !slices.ContainsFunc(all, func(t *nftables.Table) bool { return t.Name == table.Name }), nil
}

// dispatch sends packets through exactly the active impairments. silent is the index of the
// device that drops condemned packets; 0 for none. The harness's traffic with the control ports
// bypasses them all.
func (b *batch) dispatch(peers []Peer, forces []force, silent int, ports control) {
	for _, peer := range peers {
		b.counter(passedName(peer.Name, false))
		b.counter(passedName(peer.Name, true))
	}
	for _, at := range bases() {
		lead := func(name func(handle string, path int) string) {
			for _, f := range forces {
				for i, p := range f.paths {
					if p.Out != at.out {
						continue
					}
					for _, prefix := range prefixesOf(peers, p.Peer) {
						b.rule(at.name, addressIn(prefix, p.Out), to(expr.VerdictJump, name(f.handle, i)))
					}
				}
			}
		}
		b.FlushChain(b.chain(at.name))
		// A packet between two of the node's own addresses is on no link, also if the harness has
		// one of them.
		b.rule(at.name, onLoopback(at.out), to(expr.VerdictAccept, ""))
		for _, traffic := range exempt(peers, ports, at.out, addressIn) {
			b.rule(at.name, traffic, to(expr.VerdictAccept, ""))
		}
		lead(pathName)
		if at.name == "out" && silent > 0 {
			// Another device may have the index now.
			b.rule(at.name, condemned(condemnedToDrop), leavesBy(silent), to(expr.VerdictAccept, ""))
		}
		b.rule(at.name, condemned(condemnedToDrop), to(expr.VerdictDrop, ""))
		b.rule(at.name, condemned(condemnedToReset), protocolIs(unix.IPPROTO_TCP), []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}})
		lead(behindName)
		for _, peer := range peers {
			for _, prefix := range peer.Prefixes {
				b.rule(at.name, addressIn(prefix, at.out),
					[]expr.Any{&expr.Objref{Type: int(nftables.ObjTypeCounter), Name: passedName(peer.Name, at.out)}})
			}
		}
	}
}
