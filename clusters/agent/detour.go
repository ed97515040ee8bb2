package agent

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"

	"github.com/google/nftables"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/vnet"
	"github.com/holdfast-ha/holdfast/framework"
)

// What nftables cannot do to packets is done in user space, by the switch that the local
// provider has between its machines. It does not need netem, which many kernels do not have,
// and reports what it did. The frames of a link that enter or leave by the node's device are
// redirected to a TAP device, pass the switch, and continue from a second device: into the
// node's own stack, or out of the device that they were leaving by.
//
// Without an agent such a link carries only the harness's traffic with the control port, which
// is not redirected, until the next agent has taken over.

// detour is a link that passes through user space.
type detour struct {
	peer     string
	out      bool
	sw       *vnet.Switch
	from, to *vnet.Port
	rules    map[string]vnet.RuleID // by handle
	bypassed map[string]bool        // handles of impairments that another program removed
}

// detours are the detours of a node.
type detours struct {
	store   *store
	device  string
	control control
	all     map[string]*detour // by linkName
	last    int                // number in the name of the last device
	built   bool               // the table exists, unless another program has deleted it
}

// detourDevice is the prefix of the names of devices.
const detourDevice = "holdfast"

// Names of a detour's ports.
const (
	detourFrom = "from"
	detourTo   = "to"
)

// beyondNftables returns the part of an impairment that nftables cannot do.
func beyondNftables(imp framework.Impairment) (what []string) {
	for _, part := range []struct {
		name  string
		asked bool
	}{
		{"delay", imp.Delay > 0 || imp.Jitter > 0}, {"duplicate", imp.Duplicate > 0}, {"reorder", imp.Reorder > 0},
		{"corrupt", imp.Corrupt > 0}, {"rate", imp.Rate > 0},
	} {
		if part.asked {
			what = append(what, part.name)
		}
	}
	return what
}

// support returns why the node cannot have detours; nil if it can.
func (d *detours) support() error {
	probe := vnet.ProbeBackend()
	if probe.Backend == "" {
		return agenthttp.Unsupported("frames cannot be routed through user space here: " + probe.Reason)
	}
	device, err := net.InterfaceByName(d.device)
	if err != nil {
		return agenthttp.Unsupported(fmt.Sprintf("the node has no device %s: %v", d.device, err))
	}
	if len(d.all) > 0 {
		return nil
	}
	// Rules that match nothing show whether the kernel has the required features.
	f := newFrames()
	for _, out := range []bool{false, true} {
		name := linkName("probe", out)
		f.chain(name, d.device, out)
		f.rule(name, device.Index, condemned(condemnedToDrop))
	}
	if err := f.flush(); err != nil {
		return agenthttp.Unsupported(fmt.Sprintf("frames cannot be routed through user space here: this kernel lacks nft_fwd_netdev or CONFIG_NETFILTER_EGRESS (5.16): %v", err))
	}
	return newFrames().flush()
}

// add puts an impairment on links. It is active from rebuild on, or immediately if a link
// already passes through user space.
func (d *detours) add(handle string, paths []Path, imp framework.Impairment) error {
	rules := map[string]*vnet.Rule{}
	for _, p := range paths {
		name := linkName(p.Peer, p.Out)
		if d.all[name] == nil {
			t, err := d.open(p)
			if err != nil {
				return fmt.Errorf("failed to route the link %s through user space: %w", name, err)
			}
			d.all[name] = t
		}
		if rules[name] == nil {
			rules[name] = &vnet.Rule{Impairment: imp}
		}
		rules[name].Links = append(rules[name].Links, vnet.Link{From: detourFrom, To: detourTo, Ports: p.Ports})
	}
	for name, rule := range rules {
		id, err := d.all[name].sw.Impair(*rule)
		if err != nil {
			return err
		}
		d.all[name].rules[handle] = id
	}
	return nil
}

// open creates the devices of a detour.
func (d *detours) open(p Path) (*detour, error) {
	device, err := net.InterfaceByName(d.device)
	if err != nil {
		return nil, err
	}
	t := &detour{peer: p.Peer, out: p.Out, rules: map[string]vnet.RuleID{}, sw: vnet.New(vnet.Config{Seed: rand.Uint64(), MTU: device.MTU})}
	d.last++
	names := [2]string{fmt.Sprintf(detourDevice+"%da", d.last), fmt.Sprintf(detourDevice+"%db", d.last)}
	t.from, err = t.sw.Attach(vnet.PortConfig{Name: detourFrom, Device: names[0]})
	if err == nil {
		// The stack accepts frames to the node on no other address.
		t.to, err = t.sw.Attach(vnet.PortConfig{Name: detourTo, Device: names[1], MAC: device.HardwareAddr})
	}
	if err == nil {
		err = d.quieten(names)
	}
	if err != nil {
		return nil, errors.Join(err, t.sw.Close())
	}
	return t, nil
}

// notice marks the impairments whose links do not pass through user space any more, since another
// program has deleted the table.
func (d *detours) notice() {
	if !d.built {
		return
	}
	b, err := newBatch()
	gone := false
	if err == nil {
		gone, err = b.gone(&nftables.Table{Name: framesTable, Family: nftables.TableFamilyNetdev})
	}
	switch {
	case err != nil:
		complain(err)
	case gone:
		complain(errTableDeleted)
		d.built = false
		for _, t := range d.all {
			t.bypassed = map[string]bool{}
			for handle := range t.rules {
				t.bypassed[handle] = true
			}
		}
	}
}

// remove takes an impairment off every link, and reports what it did to each. Links without
// another impairment still pass through user space unchanged until rebuild.
func (d *detours) remove(handle string) map[string]framework.LinkCounters {
	done := map[string]framework.LinkCounters{}
	for name, t := range d.all {
		if id, ok := t.rules[handle]; ok {
			t.sw.Remove(id)
			done[name] = t.counters(handle, id)
			delete(t.rules, handle)
			delete(t.bypassed, handle)
		}
	}
	return done
}

// counters returns what an impairment has done on the detour's link, by its rule.
func (t *detour) counters(handle string, id vnet.RuleID) (sum framework.LinkCounters) {
	all, _ := t.sw.RuleCounters(id)
	for _, c := range all {
		sum = sum.Add(c)
	}
	if t.bypassed[handle] {
		sum.Bypassed++
	}
	return sum
}

// prune closes the detours that have no impairment, once no traffic is redirected there, and
// restores the node's settings after the last one.
func (d *detours) prune() {
	for name, t := range d.all {
		if len(t.rules) == 0 {
			delete(d.all, name)
			if err := t.sw.Close(); err != nil {
				complain(err)
			}
		}
	}
	if len(d.all) == 0 {
		d.restoreFilters()
	}
}

// rebuild redirects exactly the links that have an impairment through user space.
func (d *detours) rebuild(peers []Peer) error {
	d.notice()
	f := newFrames()
	if d.idle() {
		err := f.flush()
		if err == nil {
			d.built = false
			d.prune()
		}
		return err
	}
	device, err := net.InterfaceByName(d.device)
	if err != nil {
		return err
	}
	for _, out := range []bool{false, true} {
		name := chainOf(out)
		f.chain(name, d.device, out)
		for _, traffic := range exempt(peers, d.control, out, frameOf) {
			f.rule(name, 0, traffic)
		}
	}
	f.rule("out", 0, condemned(detoured))
	f.rule("out", 0, condemned(condemnedToDrop)) // by another table, after which it would be forgotten
	for _, t := range d.all {
		if len(t.rules) == 0 {
			continue
		}
		from, err := net.InterfaceByName(t.from.Device())
		if err != nil {
			return err
		}
		if t.out {
			f.chain(t.to.Device(), t.to.Device(), false)
			f.rule(t.to.Device(), device.Index, condemn(detoured))
		}
		for _, prefix := range prefixesOf(peers, t.peer) {
			f.rule(chainOf(t.out), from.Index, frameOf(prefix, t.out))
		}
	}
	err = f.flush()
	if err == nil {
		d.built = true
		d.prune()
	}
	return err
}

// chainOf names the chain of the frames that leave by the node's device, or enter by it.
func chainOf(out bool) string {
	if out {
		return "out"
	}
	return "in"
}

// idle reports whether no link has an impairment.
func (d *detours) idle() bool {
	for _, t := range d.all {
		if len(t.rules) > 0 {
			return false
		}
	}
	return true
}

// counters reports what an impairment has done to each link so far.
func (d *detours) counters(handle string) map[string]framework.LinkCounters {
	done := map[string]framework.LinkCounters{}
	for name, t := range d.all {
		if id, ok := t.rules[handle]; ok {
			done[name] = t.counters(handle, id)
		}
	}
	return done
}

func (n *network) rebuild() error {
	var peers []Peer
	n.store.read(func(st *state) { peers = st.Peers })
	return n.detours.rebuild(peers)
}

func (s *impairedState) detoured() bool { return len(beyondNftables(s.Impairment)) > 0 }

// detour impairs links in user space.
func (n *network) detour(handle string, s *impairedState) error {
	n.detours.notice()
	err := n.detours.add(handle, s.Paths, s.Impairment)
	if err == nil {
		err = n.rebuild()
	}
	if err != nil {
		_, endErr := n.endDetour(handle)
		err = errors.Join(err, endErr)
	}
	return err
}

// endDetour takes an impairment off the links, and reports what it did to each.
func (n *network) endDetour(handle string) (map[string]framework.LinkCounters, error) {
	n.detours.notice()
	return n.detours.remove(handle), n.rebuild()
}
