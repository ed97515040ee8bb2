package facts

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// History is one source of addresses as seen through one entrance, in the order in
// which the cluster went through it. Unlike a chain it has every change that a
// watch told of, also those that a sample had overtaken.
type History struct {
	Source, Via string
	States      []record.Timed[record.Endpoints]
}

func (h History) String() string { return h.Source + " through " + h.Via }

// Histories returns what was seen of each source through each entrance, ordered by
// source and entrance.
func Histories(run *record.Run) []History {
	var all []History
	for _, e := range run.Endpoints {
		if !slices.Contains(Sources[:], e.V.Source) {
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
	for _, h := range all {
		version := func(e record.Timed[record.Endpoints]) uint64 {
			n, _ := strconv.ParseUint(e.V.Revision, 10, 64)
			return n
		}
		// A state without a version cannot be put anywhere else.
		if !slices.ContainsFunc(h.States, func(e record.Timed[record.Endpoints]) bool { return version(e) == 0 }) {
			slices.SortStableFunc(h.States, func(a, b record.Timed[record.Endpoints]) int { return cmp.Compare(version(a), version(b)) })
		}
	}
	return all
}

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
