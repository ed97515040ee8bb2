package facts

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Sources are the two objects with the addresses of the kubernetes service.
var Sources = [...]string{"endpoints", "endpointslice"}

// History is one source of addresses as seen through one entrance. Different entrances are kept
// apart: one may lag behind another.
type History struct {
	Source, Via string
	States      []record.Timed[record.Endpoints]
}

func (h History) String() string { return h.Source + " through " + h.Via }

// observed returns the states of each source through each entrance except the given ones, as
// recorded, ordered by source and entrance.
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

// Chains returns the states of each source in order of time. A state older than an earlier one is
// left out: a watch may report late what a sample has already shown.
func Chains(run *record.Run, except ...string) []History {
	all := observed(run, except...)
	for i := range all {
		newest := uint64(0)
		all[i].States = slices.DeleteFunc(all[i].States, func(e record.Timed[record.Endpoints]) bool {
			version := record.Number(e.V.Revision)
			newest = max(newest, version)
			return version > 0 && version < newest
		})
	}
	return all
}

// Histories returns the states of each source in the order in which the cluster had them. Unlike
// chains they have every change that a watch reported, even if a sample had overtaken it.
func Histories(run *record.Run) []History {
	all := observed(run)
	for _, h := range all {
		version := func(e record.Timed[record.Endpoints]) uint64 { return record.Number(e.V.Revision) }
		// A state without a version has no other place.
		if !slices.ContainsFunc(h.States, func(e record.Timed[record.Endpoints]) bool { return version(e) == 0 }) {
			slices.SortStableFunc(h.States, func(a, b record.Timed[record.Endpoints]) int { return cmp.Compare(version(a), version(b)) })
		}
	}
	return all
}

// Between returns the states from from up to, but not including, to.
func (h History) Between(from, to record.Nanos) []record.Timed[record.Endpoints] {
	return slices.DeleteFunc(slices.Clone(h.States), func(s record.Timed[record.Endpoints]) bool { return s.At < from || s.At >= to })
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

// Change is how a chain started or stopped listing an address.
type Change struct {
	Chain History
	// Done reports whether that happened, at At.
	Done bool
	At   record.Nanos
	// undone reports whether it was reverted, at undoneAt.
	undone   bool
	UndoneAt record.Nanos
	// Last is the time of the last state seen; seen reports whether there is one.
	Last record.Nanos
	seen bool
}

// Follow looks for the first state between from and to that lists the address (want true) or does
// not (want false), and for one that reverts it.
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

// settled checks the changes of all chains against the bound: each source must have changed in
// time through each entrance, and must not have been seen unchanged.
type settled struct {
	Worst   time.Duration
	Late    *Change // changed, or still unchanged, after the bound
	Undone  *Change
	Missing []string // sources without a result
	// Unread are chains that had not changed at the last reading and were not read afterwards.
	Unread []string
}

// Settle checks changes against a bound that counts from zero. They were searched for until to.
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

// Blind is how long a source may go unread while its states still count as complete: it is read
// once a second through each API server.
const Blind = 3 * time.Second

// Unseen returns the sources that are not in the record.
func Unseen(all []History) (missing []string) {
	for _, source := range Sources {
		if !slices.ContainsFunc(all, func(h History) bool { return h.Source == source && len(h.States) > 0 }) {
			missing = append(missing, source)
		}
	}
	return missing
}

// SameSet reports whether addresses, in whatever order, equal a sorted list.
func SameSet(addresses, sorted []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(addresses)), sorted)
}

// HostOf returns the host of an address with a port, an IPv6 address without its brackets. An
// address without a port is its own host.
func HostOf(address string) string {
	if bracketed, ok := strings.CutPrefix(address, "["); ok {
		host, _, _ := strings.Cut(bracketed, "]")
		return host
	}
	if strings.Count(address, ":") > 1 {
		return address
	}
	host, _, _ := strings.Cut(address, ":")
	return host
}

func Bracketed(addresses []string) string { return "[" + strings.Join(addresses, " ") + "]" }
