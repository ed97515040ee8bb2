package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// state is what a lane shows at one time; the zero value means unknown, and nothing is drawn.
type state struct{ class, text string }

// track gathers the states of one lane in order of time.
type track struct{ bars []bar }

// set records that s holds from at on.
func (t *track) set(at record.Nanos, s state) {
	if n := len(t.bars); n > 0 {
		last := &t.bars[n-1]
		if last.class == s.class && last.text == s.text {
			return
		}
		at = max(at, last.from)
		last.to = at
	}
	t.bars = append(t.bars, bar{from: at, class: s.class, text: s.text})
}

// finish ends the track and returns the bars to draw. Neighbours that are both shorter than step
// are merged; the result is alarming if one of them is, so that merging hides nothing.
func (t *track) finish(end, step record.Nanos, name string) []bar {
	var bars []bar
	for i, b := range t.bars {
		if i == len(t.bars)-1 {
			b.to = max(end, b.from)
		}
		short := b.to-b.from < step
		if i < len(t.bars)-1 && (short && b.class == "partial" || b.to == b.from && !b.alarming()) {
			// Endpoints and EndpointSlice are written one after the other.
			t.bars[i+1].from = b.from
			continue
		}
		if n := len(bars); n > 0 && short && bars[n-1].to-bars[n-1].from < step && bars[n-1].to == b.from {
			last := &bars[n-1]
			last.to = b.to
			if b.alarming() {
				last.class = b.class
			}
			last.text = "changes too quick to draw"
			continue
		}
		if b.class != "" {
			bars = append(bars, b)
		}
	}
	for i := range bars {
		b := &bars[i]
		b.tip = tip(name+": "+b.text, b.from, b.to)
		if b.alarming() {
			b.text += " " + human(time.Duration(b.to-b.from))
		}
	}
	return bars
}

// alarming reports whether a bar shows something missing or wrong.
func (b bar) alarming() bool { return b.class == "gone" || b.class == "bad" }

func nodeState(run *record.Run, node, text string) state {
	if i := nodeIndex(run, node); i >= 0 {
		return state{"node n" + strconv.Itoa(i%nodeColours), text}
	}
	return state{"node other", text}
}

// nodeColours is the number of colours that the page has for nodes.
const nodeColours = 7

// etcdLanes shows the leader and its term according to the members of the highest term, then each
// member's own view.
func etcdLanes(run *record.Run, end, step record.Nanos) []lane {
	if len(run.Etcd) == 0 {
		return nil
	}
	nodeOf := map[string]string{} // by member
	var nodes []string
	times := map[string][]record.Nanos{}
	for _, e := range run.Etcd {
		if e.V.OK && e.V.Member != "" {
			nodeOf[e.V.Member] = e.V.Node
		}
		if !slices.Contains(nodes, e.V.Node) {
			nodes = append(nodes, e.V.Node)
		}
		times[e.V.Node] = append(times[e.V.Node], e.At)
	}
	slices.SortFunc(nodes, func(a, b string) int { return nodeIndex(run, a) - nodeIndex(run, b) })
	leader := func(member string, term uint64) state {
		suffix := ""
		if term > 0 { // a record may lack it
			suffix = fmt.Sprintf(", term %d", term)
		}
		if node, ok := nodeOf[member]; ok {
			return nodeState(run, node, node+suffix)
		}
		return state{"node other", "member " + member + suffix}
	}

	var all track
	tracks := map[string]*track{}
	views := map[string]record.EtcdStatus{}
	heard := map[string]record.Nanos{}
	for _, e := range run.Etcd {
		node := e.V.Node
		patience := max(5*typicalGap(times[node]), record.Nanos(3*time.Second))
		t := tracks[node]
		if t == nil {
			t = &track{}
			tracks[node] = t
		} else if e.At-heard[node] > patience {
			t.set(heard[node]+patience, state{})
		}
		heard[node], views[node] = e.At, e.V
		for other, at := range heard {
			if e.At-at > patience {
				delete(views, other)
			}
		}
		all.set(e.At, commonLeader(views, leader))
		switch {
		case !e.V.OK:
			t.set(e.At, state{"gone", "no answer"})
		case e.V.Leader == "":
			t.set(e.At, state{"bad", "no leader"})
		default:
			t.set(e.At, leader(e.V.Leader, e.V.Term))
		}
	}
	lanes := []lane{{label: "leader", bars: all.finish(end, step, "etcd leader")}}
	for _, node := range nodes {
		bars := tracks[node].finish(end, step, "leader as "+node+" sees it")
		for i := range bars {
			bars[i].text = "" // the lane is too low for it
		}
		lanes = append(lanes, lane{note: "as " + node + " sees it", thin: true, bars: bars})
	}
	return lanes
}

// commonLeader returns the leader of the highest term in the members' last views.
func commonLeader(views map[string]record.EtcdStatus, leader func(member string, term uint64) state) state {
	var term uint64
	answers := 0
	for _, v := range views {
		if v.OK {
			answers++
			term = max(term, v.Term)
		}
	}
	if answers == 0 {
		return state{"bad", "no member answers"}
	}
	var leaders []string
	for _, v := range views {
		if v.OK && v.Term == term && v.Leader != "" && !slices.Contains(leaders, v.Leader) {
			leaders = append(leaders, v.Leader)
		}
	}
	switch len(leaders) {
	case 0:
		return state{"bad", "no leader"}
	case 1:
		return leader(leaders[0], term)
	}
	return state{"bad", fmt.Sprintf("%d leaders in term %d", len(leaders), term)}
}

// endpointLanes has a lane per address. For each source (Endpoints and EndpointSlice), the newest
// revision read through any entrance counts.
func endpointLanes(run *record.Run, end, step record.Nanos) []lane {
	var addresses []string
	names := map[string]string{}
	for _, n := range run.Meta.Nodes {
		addresses = append(addresses, n.Address)
		names[n.Address] = n.Name
	}
	for _, c := range run.Nodes {
		if c.V.Phase == record.NodeAdded {
			addresses = append(addresses, c.V.Node.Address)
			names[c.V.Node.Address] = c.V.Node.Name
		}
	}
	for _, e := range run.Endpoints {
		for _, a := range e.V.Addresses {
			if !slices.Contains(addresses, a) {
				addresses = append(addresses, a)
			}
		}
	}
	if len(run.Endpoints) == 0 {
		return nil
	}
	tracks := make([]track, len(addresses))
	newest := map[string]record.Endpoints{} // by source
	for _, e := range run.Endpoints {
		if known, ok := newest[e.V.Source]; ok && older(e.V.Revision, known.Revision) {
			continue
		}
		newest[e.V.Source] = e.V
		for i, address := range addresses {
			tracks[i].set(e.At, presence(run, newest, address, names[address]))
		}
	}
	var lanes []lane
	for i, address := range addresses {
		lanes = append(lanes, lane{label: address, note: names[address], bars: tracks[i].finish(end, step, address)})
	}
	return lanes
}

func presence(run *record.Run, newest map[string]record.Endpoints, address, node string) state {
	var in, out []string
	for _, source := range sortedKeys(newest) {
		if slices.Contains(newest[source].Addresses, address) {
			in = append(in, source)
		} else {
			out = append(out, source)
		}
	}
	switch {
	case len(in) == 0:
		return state{"gone", "absent"}
	case len(out) > 0:
		return state{"partial", "in " + in[0] + " only"}
	}
	return nodeState(run, node, "present")
}

// older reports whether revision a is before b; false if they cannot be compared.
func older(a, b string) bool {
	x, y := record.Number(a), record.Number(b)
	return x > 0 && x < y
}

// leaseLanes has a lane per lease. A lease that was not renewed for its duration is shown as
// expired.
func leaseLanes(run *record.Run, end, step record.Nanos) []lane {
	type holding struct {
		track
		last   record.Lease
		expiry record.Nanos
	}
	byName := map[string]*holding{}
	for _, l := range run.Leases {
		h := byName[l.V.Name]
		if h == nil {
			h = &holding{}
			byName[l.V.Name] = h
		} else if older(l.V.Revision, h.last.Revision) || l.V.Revision == h.last.Revision && l.V.Revision != "" {
			continue
		}
		if h.expiry > 0 && l.At > h.expiry {
			h.set(h.expiry, state{"gone", "expired"})
		}
		h.last, h.expiry = l.V, 0
		if l.V.Holder == "" {
			h.set(l.At, state{"gone", "no holder"})
			continue
		}
		if l.V.Duration > 0 {
			h.expiry = l.At + record.Nanos(l.V.Duration)*record.Nanos(time.Second)
		}
		name := cmp.Or(l.V.HolderNode, l.V.Holder)
		h.set(l.At, nodeState(run, name, name))
	}
	var lanes []lane
	for _, name := range sortedKeys(byName) {
		h := byName[name]
		if h.expiry > 0 && end > h.expiry {
			h.set(h.expiry, state{"gone", "expired"})
		}
		lanes = append(lanes, lane{label: name, bars: h.finish(end, step, "holder of "+name)})
	}
	return lanes
}
