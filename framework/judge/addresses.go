package judge

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// sources are the two places where the addresses of the kubernetes service are.
var sources = [...]string{"endpoints", "endpointslice"}

// chain is one source as seen through one entrance, in the order of time. What
// is seen through different entrances is not mixed: one may lag behind another.
type chain struct {
	source, via string
	states      []record.Timed[record.Endpoints]
	newest      uint64 // resourceVersion of the newest state
}

// chains returns what was seen of each source through each entrance but those
// excepted, ordered by source and entrance. A state that is older than one seen
// before is left out: a watch may tell late what a reading has told already.
func chains(run *record.Run, except ...string) []chain {
	var all []chain
	for _, e := range run.Endpoints {
		if slices.Contains(except, e.V.Via) || !slices.Contains(sources[:], e.V.Source) {
			continue
		}
		i := slices.IndexFunc(all, func(c chain) bool { return c.source == e.V.Source && c.via == e.V.Via })
		if i < 0 {
			i = len(all)
			all = append(all, chain{source: e.V.Source, via: e.V.Via})
		}
		if version, err := strconv.ParseUint(e.V.Revision, 10, 64); err == nil {
			if version < all[i].newest {
				continue
			}
			all[i].newest = version
		}
		all[i].states = append(all[i].states, e)
	}
	slices.SortFunc(all, func(a, b chain) int {
		if c := strings.Compare(a.source, b.source); c != 0 {
			return c
		}
		return strings.Compare(a.via, b.via)
	})
	return all
}

func (c chain) String() string { return c.source + " through " + c.via }

// between returns the states seen from from up to, not including, to.
func (c chain) between(from, to record.Nanos) []record.Timed[record.Endpoints] {
	var out []record.Timed[record.Endpoints]
	for _, s := range c.states {
		if s.At >= from && s.At < to {
			out = append(out, s)
		}
	}
	return out
}

// lists tells whether the last state before t has the address; known is false
// where there is none.
func (c chain) lists(address string, t record.Nanos) (listed, known bool) {
	for _, s := range c.states {
		if s.At < t {
			listed, known = slices.Contains(s.V.Addresses, address), true
		}
	}
	return listed, known
}

// change is how a chain came to list, or no longer list, an address.
type change struct {
	chain chain
	// done tells whether it came about, at at.
	done bool
	at   record.Nanos
	// undone tells whether it was taken back, at undoneAt.
	undone   bool
	undoneAt record.Nanos
	// last is the time of the last state seen; seen tells whether there is one.
	last record.Nanos
	seen bool
}

// follow looks for the first state between from and to that lists the address
// (want true) or does not (want false), and for one that takes it back.
func (c chain) follow(address string, want bool, from, to record.Nanos) change {
	ch := change{chain: c}
	for _, s := range c.between(from, to) {
		ch.last, ch.seen = s.At, true
		is := slices.Contains(s.V.Addresses, address) == want
		switch {
		case is && !ch.done:
			ch.done, ch.at = true, s.At
		case !is && ch.done && !ch.undone:
			ch.undone, ch.undoneAt = true, s.At
		}
	}
	return ch
}

// settled holds the changes of all chains against the bound: each source must
// have been seen to change in time through each entrance, and none may be seen not to.
type settled struct {
	worst   time.Duration
	late    *change // changed or still unchanged after the bound
	undone  *change
	missing []string // sources for which nothing can be said
	// unread are chains that had not changed when they were read last, and were not
	// read afterwards.
	unread []string
}

// settle holds changes against a bound that counts from zero. They were looked for until
// to.
func settle(changes []change, zero, to record.Nanos, limit time.Duration) settled {
	var s settled
	good := map[string]bool{}
	for i := range changes {
		ch := &changes[i]
		after := time.Duration(ch.at - zero)
		if !ch.done {
			after = time.Duration(ch.last - zero)
		}
		if !ch.done && span(max(ch.last, zero), to) > blind && after <= limit {
			s.unread = append(s.unread, ch.chain.String())
		}
		switch {
		case !ch.seen:
		case ch.undone && s.undone == nil:
			s.undone = ch
		case after > limit:
			if s.late == nil || after > s.worst {
				s.late = ch
			}
			s.worst = max(s.worst, after)
		case ch.done:
			good[ch.chain.source] = true
			s.worst = max(s.worst, after)
		}
	}
	for _, source := range sources {
		if !good[source] {
			s.missing = append(s.missing, source)
		}
	}
	return s
}

// blind is for how long a source may go unread for its states to count as all that
// there were: it is read once a second through each API server.
const blind = 3 * time.Second
