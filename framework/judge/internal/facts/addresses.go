package facts

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Sources are the two places where the addresses of the kubernetes service are.
var Sources = [...]string{"endpoints", "endpointslice"}

// chain is one source as seen through one entrance, in the order of time. What
// is seen through different entrances is not mixed: one may lag behind another.
type chain struct {
	Source, Via string
	States      []record.Timed[record.Endpoints]
	newest      uint64 // resourceVersion of the newest state
}

// Chains returns what was seen of each source through each entrance but those
// excepted, ordered by source and entrance. A state that is older than one seen
// before is left out: a watch may tell late what a reading has told already.
func Chains(run *record.Run, except ...string) []chain {
	var all []chain
	for _, e := range run.Endpoints {
		if slices.Contains(except, e.V.Via) || !slices.Contains(Sources[:], e.V.Source) {
			continue
		}
		i := slices.IndexFunc(all, func(c chain) bool { return c.Source == e.V.Source && c.Via == e.V.Via })
		if i < 0 {
			i = len(all)
			all = append(all, chain{Source: e.V.Source, Via: e.V.Via})
		}
		if version, err := strconv.ParseUint(e.V.Revision, 10, 64); err == nil {
			if version < all[i].newest {
				continue
			}
			all[i].newest = version
		}
		all[i].States = append(all[i].States, e)
	}
	slices.SortFunc(all, func(a, b chain) int {
		if c := strings.Compare(a.Source, b.Source); c != 0 {
			return c
		}
		return strings.Compare(a.Via, b.Via)
	})
	return all
}

func (c chain) String() string { return c.Source + " through " + c.Via }

// Between returns the states seen from from up to, not including, to.
func (c chain) Between(from, to record.Nanos) []record.Timed[record.Endpoints] {
	var out []record.Timed[record.Endpoints]
	for _, s := range c.States {
		if s.At >= from && s.At < to {
			out = append(out, s)
		}
	}
	return out
}

// Lists reports whether the last state before t has the address; known is false
// if none exists.
func (c chain) Lists(address string, t record.Nanos) (listed, known bool) {
	for _, s := range c.States {
		if s.At < t {
			listed, known = slices.Contains(s.V.Addresses, address), true
		}
	}
	return listed, known
}

// Change is how a chain came to list, or no longer list, an address.
type Change struct {
	Chain chain
	// Done reports whether it came about, at at.
	Done bool
	At   record.Nanos
	// undone reports whether it was taken back, at undoneAt.
	undone   bool
	UndoneAt record.Nanos
	// Last is the time of the last state seen; seen reports whether there is one.
	Last record.Nanos
	seen bool
}

// Follow looks for the first state between from and to that lists the address
// (want true) or does not (want false), and for one that takes it back.
func (c chain) Follow(address string, want bool, from, to record.Nanos) Change {
	ch := Change{Chain: c}
	for _, s := range c.Between(from, to) {
		ch.Last, ch.seen = s.At, true
		is := slices.Contains(s.V.Addresses, address) == want
		switch {
		case is && !ch.Done:
			ch.Done, ch.At = true, s.At
		case !is && ch.Done && !ch.undone:
			ch.undone, ch.UndoneAt = true, s.At
		}
	}
	return ch
}

// settled holds the changes of all chains against the bound: each source must
// have been seen to change in time through each entrance, and none may be seen not to.
type settled struct {
	Worst   time.Duration
	Late    *Change // changed or still unchanged after the bound
	Undone  *Change
	Missing []string // sources for which nothing can be said
	// Unread are chains that had not changed when they were read last, and were not
	// read afterwards.
	Unread []string
}

// Settle holds changes against a bound that counts from zero. They were looked for until
// to.
func Settle(changes []Change, zero, to record.Nanos, limit time.Duration) settled {
	var s settled
	good := map[string]bool{}
	for i := range changes {
		ch := &changes[i]
		after := time.Duration(ch.At - zero)
		if !ch.Done {
			after = time.Duration(ch.Last - zero)
		}
		if !ch.Done && text.Span(max(ch.Last, zero), to) > Blind && after <= limit {
			s.Unread = append(s.Unread, ch.Chain.String())
		}
		switch {
		case !ch.seen:
		case ch.undone && s.Undone == nil:
			s.Undone = ch
		case after > limit:
			if s.Late == nil || after > s.Worst {
				s.Late = ch
			}
			s.Worst = max(s.Worst, after)
		case ch.Done:
			good[ch.Chain.Source] = true
			s.Worst = max(s.Worst, after)
		}
	}
	for _, source := range Sources {
		if !good[source] {
			s.Missing = append(s.Missing, source)
		}
	}
	return s
}

// Blind is for how long a source may go unread for its states to count as all that
// there were: it is read once a second through each API server.
const Blind = 3 * time.Second
