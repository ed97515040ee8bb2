package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// Peer is the host at the other end of a node's links.
type Peer struct {
	Name string `json:"name"`
	// Prefixes are the addresses in its packets: its own, and those of its pods. The prefixes
	// of two peers do not overlap.
	Prefixes []netip.Prefix `json:"prefixes"`
}

// Path is one direction between the node and a peer.
type Path struct {
	Peer string `json:"peer"`
	// Out selects what the node sends, otherwise what it receives.
	Out bool `json:"out,omitempty"`
	// Ports narrow the path, like those of framework.Link.
	Ports []uint16 `json:"ports,omitempty"`
}

// impairedState is an impairment that has neither been restored nor expired.
type impairedState struct {
	Paths      []Path               `json:"paths"`
	Impairment framework.Impairment `json:"impairment"`
	Began      time.Time            `json:"began"`
	Until      time.Time            `json:"until"`
	// Counted is what the impairment did to each link before the kernel's counters were reset.
	Counted links `json:"countedByLink,omitempty"`
}

// restoredState is what is kept of a restored impairment.
type restoredState struct {
	Handle  string `json:"handle"`
	Counted links  `json:"countedByLink"`
}

// restoredLimit is the number of restored impairments whose counters are kept.
const restoredLimit = 64

// network impairs the links of a node.
type network struct {
	store    *store
	device   string
	control  control
	detours  detours
	resetter *resetter
	// cannot says why this node cannot impair links.
	cannot error
	// newBatch is the function of that name, except in tests.
	newBatch func() (*batch, error)

	mu sync.Mutex
	// silenced is the index of the device that drops condemned packets.
	silenced int
	timers   expiry.Timers[string] // of the next change of an impairment, by handle
	off      map[string]bool       // impairments that flap and are currently inactive
}

func newNetwork(config Config, s *store) *network {
	device, ports := deviceOf(config.Device), control{config.ControlPort, config.PeerControlPorts}
	return &network{store: s, device: device, control: ports, resetter: newResetter(), newBatch: newBatch, off: map[string]bool{},
		detours: detours{store: s, device: device, control: ports, all: map[string]*detour{}}}
}

func (n *network) saved() (all map[string]*impairedState) {
	n.store.read(func(st *state) { all = maps.Clone(st.Impaired) })
	return all
}

// dispatch sends a batch, after which packets meet exactly the active impairments.
func (n *network) dispatch(b *batch) error {
	var forces []force
	var peers []Peer
	n.store.read(func(st *state) {
		peers = st.Peers
		for _, handle := range slices.Sorted(maps.Keys(st.Impaired)) {
			if !n.off[handle] && !st.Impaired[handle].detoured() {
				forces = append(forces, force{handle, st.Impaired[handle].Paths})
			}
		}
	})
	b.dispatch(peers, forces, n.silent(), n.control)
	return b.Flush()
}

// silent returns the index of the device on which condemned packets are dropped without an
// error to their sender; 0 if the kernel does not support that.
func (n *network) silent() int {
	device, err := net.InterfaceByName(n.device)
	if err != nil {
		return 0
	}
	if device.Index == n.silenced {
		return device.Index
	}
	b, err := n.newBatch()
	if err == nil {
		b.silence(n.device)
		err = b.Flush()
	}
	if err != nil {
		return 0
	}
	n.silenced = device.Index
	return device.Index
}

// meet sets the peers and replaces the previous ones.
func (n *network) meet(peers []Peer) error {
	for _, p := range peers {
		if p.Name == "" || len(p.Prefixes) == 0 || slices.ContainsFunc(p.Prefixes, func(x netip.Prefix) bool { return !x.IsValid() }) {
			return fmt.Errorf("peer %q needs a name and addresses, such as 172.18.0.3/32", p.Name)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	keep := func() error { return n.store.update(func(st *state) { st.Peers = peers }) }
	if n.cannot != nil { // impairments are refused, and other agents may be able to impair its links
		return keep()
	}
	b, err := n.change()
	if err != nil {
		return err
	}
	if err := keep(); err != nil {
		return err
	}
	if len(n.detours.all) > 0 {
		if err := n.rebuild(); err != nil {
			return err
		}
	}
	return n.dispatch(b)
}

// support returns why an impairment is not possible; nil if it is.
func (n *network) support(imp framework.Impairment) error {
	if n.cannot != nil {
		return n.cannot
	}
	if what := beyondNftables(imp); len(what) > 0 {
		if err := n.detours.support(); err != nil {
			return agenthttp.Unsupported(fmt.Sprintf("%s: %v", strings.Join(what, ", "), err))
		}
	}
	return nil
}

func (n *network) check(r request) error {
	if err := n.support(r.Impairment); err != nil {
		return err
	}
	imp := r.Impairment
	switch {
	case r.For <= 0:
		return fmt.Errorf("an impairment needs a time to live above zero, not %s", r.For)
	case r.Handle == "" || strings.ContainsAny(r.Handle, " /") || len(r.Handle) > 64:
		return fmt.Errorf("%q is not a handle: 1 to 64 letters, digits and hyphens", r.Handle)
	case len(r.Paths) == 0:
		return errors.New("the impairment names no link")
	case imp.Cut && imp.Reset:
		return errors.New("cut and reset cannot be combined: cut drops packets silently, reset answers them")
	case imp.Reset && len(beyondNftables(imp)) > 0:
		return fmt.Errorf("reset cannot be combined with: %s", strings.Join(beyondNftables(imp), ", "))
	case !(imp.Loss >= 0 && imp.Loss <= 1):
		return fmt.Errorf("loss is %v, want a probability from 0 to 1", imp.Loss)
	case (imp.FlapOn != 0 || imp.FlapOff != 0) && min(imp.FlapOn, imp.FlapOff) < time.Millisecond:
		return errors.New("the phases of a flapping impairment must both be 1ms or longer")
	}
	var err error
	n.store.read(func(st *state) {
		if st.Impaired[r.Handle] != nil {
			err = fmt.Errorf("an impairment %s already exists", r.Handle)
		}
		for _, p := range r.Paths {
			if len(prefixesOf(st.Peers, p.Peer)) == 0 {
				err = fmt.Errorf("no peer %q is known here", p.Peer)
			}
		}
	})
	return err
}

func prefixesOf(peers []Peer, name string) []netip.Prefix {
	for _, p := range peers {
		if p.Name == name {
			return p.Prefixes
		}
	}
	return nil
}

// impair activates an impairment on all its paths in one transaction.
func (n *network) impair(r request) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.check(r); err != nil {
		return err
	}
	b, err := n.change()
	if err != nil {
		return err
	}
	now := time.Now()
	s := &impairedState{Paths: r.Paths, Impairment: r.Impairment, Began: now, Until: now.Add(r.For)}
	if err := n.store.update(func(st *state) { st.Impaired[r.Handle] = s }); err != nil {
		n.store.note(func(st *state) { delete(st.Impaired, r.Handle) })
		return fmt.Errorf("failed to impair links: %w", err)
	}
	if s.detoured() {
		err = n.detour(r.Handle, s)
	} else if err = b.addImpairment(r.Handle, r.Paths, r.Impairment, n.resetter.tell(r.Handle)); err == nil {
		err = n.dispatch(b)
	}
	if err != nil {
		// The kernel may have done it all the same: its answers can get lost (ENOBUFS).
		if endErr := n.end(r.Handle); endErr != nil {
			n.store.note(func(*state) { s.Until = now })
			n.schedule(r.Handle, s)
			err = errors.Join(err, endErr)
		}
		return fmt.Errorf("failed to impair links: %w", err)
	}
	n.schedule(r.Handle, s)
	return nil
}

// restore removes an impairment; it does nothing if the impairment is gone.
func (n *network) restore(handle string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.end(handle)
}

// endAll ends every impairment now, and tries again until that succeeds.
func (n *network) endAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for handle, s := range n.saved() {
		if err := n.end(handle); err != nil {
			complain(err)
			n.store.note(func(*state) { s.Until = time.Now() })
			n.timers.Start(&n.mu, handle, retryPause, func() error { return n.end(handle) })
		}
	}
}

// end is restore with mu held. The counters are read after the last packet.
func (n *network) end(handle string) error {
	s := n.saved()[handle]
	if s == nil {
		return nil
	}
	var done map[string]framework.LinkCounters
	var err error
	if s.detoured() {
		if done, err = n.endDetour(handle); err != nil {
			// Nothing is done to them there, but devices and weaker filters are left until it succeeds.
			complain(fmt.Errorf("failed to stop routing links through user space: %w", err))
			n.timers.Start(&n.mu, rebuilding, retryPause, n.rebuild)
		}
	} else if done, err = n.endRules(handle, s); err != nil {
		return fmt.Errorf("failed to restore links: %w", err)
	}
	n.store.note(func(st *state) {
		delete(st.Impaired, handle)
		st.Restored = append(st.Restored, restoredState{handle, addLinks(addLinks(s.Counted, done), links{"": {Resets: n.resetter.forget(handle)}})})
		st.Restored = st.Restored[max(0, len(st.Restored)-restoredLimit):]
		foldDropped(st, done)
	})
	n.timers.Stop(handle)
	delete(n.off, handle)
	return nil
}

// endRules removes an impairment from nftables, and reports what it did to each link.
func (n *network) endRules(handle string, s *impairedState) (map[string]framework.LinkCounters, error) {
	b, err := n.change()
	if err != nil {
		return nil, err
	}
	wasOff := n.off[handle]
	n.off[handle] = true
	if err := n.dispatch(b); err != nil {
		n.off[handle] = wasOff
		return nil, err
	}
	counted, err := b.counters()
	if err != nil {
		complain(err)
	}
	b.removeImpairment(handle, s.Paths, s.Impairment)
	if err := b.Flush(); err != nil {
		complain(fmt.Errorf("failed to remove nftables objects that are no longer referenced: %w", err))
	}
	return byLink(handle, s.Paths, counted), nil
}

func (n *network) handle(mux *http.ServeMux) {
	answer(mux, "POST /peers", func(_ context.Context, r request) (any, error) { return nil, n.meet(r.Peers) })
	answer(mux, "POST /impairment-support", func(_ context.Context, r request) (any, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return nil, n.support(r.Impairment)
	})
	answer(mux, "POST /impair", func(_ context.Context, r request) (any, error) { return nil, n.impair(r) })
	answer(mux, "POST /restore", func(_ context.Context, r request) (any, error) { return nil, n.restore(r.Handle) })
	answer(mux, "POST /counters", func(_ context.Context, r request) (any, error) { return n.counters(r.Handle) })
	answer(mux, "POST /probe", func(_ context.Context, r request) (any, error) { return nil, system.SendProbes(r.Probe, r.Packets) })
	answer(mux, "POST /link", func(_ context.Context, r request) (any, error) {
		if len(r.Paths) != 1 {
			return nil, errors.New("want exactly one link")
		}
		return n.link(r.Paths[0])
	})
}
