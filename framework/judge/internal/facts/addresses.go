package facts

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Sources are the two places where the addresses of the kubernetes service are.
var Sources = [...]string{"endpoints", "endpointslice"}

// History is one source of addresses as seen through one entrance. What is seen through
// different entrances is not mixed: one may lag behind another.
type History struct {
	Source, Via string
	States      []record.Timed[record.Endpoints]
}

func (h History) String() string { return h.Source + " through " + h.Via }

// observed returns what was seen of each source through each entrance but those excepted,
// as it was recorded, ordered by source and entrance.
func observed(run *record.Run, except ...string) []History {
	var all []History
	for _, e := range run.Endpoints {
		if slices.Contains(except, e.V.Via) || !slices.Contains(Sources[:], e.V.Source) {
			continue
		}
		i := slices.IndexFunc(all, func(h History) bool { return h.Source == e.V.Source && h.Via == e.V.Via })
		if i < 0 {
			i = len(all)
			all = append(all, History{Source: e.V.Source, Via: e.V.Via})
		}
		all[i].States = append(all[i].States, e)
	}
	slices.SortFunc(all, func(a, b History) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Via, b.Via))
	})
	return all
}

// Chains returns what was seen of each source in the order of time. A state that is older
// than one seen before is left out: a watch may report late what a reading has shown already.
func Chains(run *record.Run, except ...string) []History {
	all := observed(run, except...)
	for i := range all {
		newest := uint64(0)
		all[i].States = slices.DeleteFunc(all[i].States, func(e record.Timed[record.Endpoints]) bool {
			version := Number(e.V.Revision)
			newest = max(newest, version)
			return version > 0 && version < newest
		})
	}
	return all
}

// Histories returns what was seen of each source in the order in which the cluster went
// through it. Unlike chains they have every change that a watch reported, also those that a
// reading had overtaken.
func Histories(run *record.Run) []History {
	all := observed(run)
	for _, h := range all {
		version := func(e record.Timed[record.Endpoints]) uint64 { return Number(e.V.Revision) }
		// A state without a version cannot be put anywhere else.
		if !slices.ContainsFunc(h.States, func(e record.Timed[record.Endpoints]) bool { return version(e) == 0 }) {
			slices.SortStableFunc(h.States, func(a, b record.Timed[record.Endpoints]) int { return cmp.Compare(version(a), version(b)) })
		}
	}
	return all
}

// Between returns the states seen from from up to, not including, to.
func (h History) Between(from, to record.Nanos) []record.Timed[record.Endpoints] {
	var out []record.Timed[record.Endpoints]
	for _, s := range h.States {
		if s.At >= from && s.At < to {
			out = append(out, s)
		}
	}
	return out
}

// Lists reports whether the last state before t has the address; known is false
// if none exists.
func (h History) Lists(address string, t record.Nanos) (listed, known bool) {
	for _, s := range h.States {
		if s.At < t {
			listed, known = slices.Contains(s.V.Addresses, address), true
		}
	}
	return listed, known
}

// Change is how a chain came to list, or no longer list, an address.
type Change struct {
	Chain History
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
func (h History) Follow(address string, want bool, from, to record.Nanos) Change {
	ch := Change{Chain: h}
	for _, s := range h.Between(from, to) {
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

// Unseen returns the sources of which a record has nothing.
func Unseen(all []History) (missing []string) {
	for _, source := range Sources {
		if !slices.ContainsFunc(all, func(h History) bool { return h.Source == source && len(h.States) > 0 }) {
			missing = append(missing, source)
		}
	}
	return missing
}

// APIServerAddresses returns the addresses of the nodes that are meant to run an
// API server, sorted.
func (m *Matter) APIServerAddresses() []string {
	var all []string
	for _, n := range m.NodesWith("kube-apiserver") {
		all = append(all, n.Address)
	}
	slices.Sort(all)
	return all
}

// SameSet reports whether addresses, in whatever order, are those of a sorted list.
func SameSet(addresses, sorted []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(addresses)), sorted)
}

func Bracketed(addresses []string) string { return "[" + strings.Join(addresses, " ") + "]" }
