package judge

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// history is one source of addresses as seen through one entrance, in the order in
// which the cluster went through it. Unlike a chain it has every change that a
// watch told of, also those that a sample had overtaken.
type history struct {
	source, via string
	states      []record.Timed[record.Endpoints]
}

func (h history) String() string { return h.source + " through " + h.via }

// histories returns what was seen of each source through each entrance, ordered by
// source and entrance.
func histories(run *record.Run) []history {
	var all []history
	for _, e := range run.Endpoints {
		if !slices.Contains(sources[:], e.V.Source) {
			continue
		}
		i := slices.IndexFunc(all, func(h history) bool { return h.source == e.V.Source && h.via == e.V.Via })
		if i < 0 {
			i = len(all)
			all = append(all, history{source: e.V.Source, via: e.V.Via})
		}
		all[i].states = append(all[i].states, e)
	}
	slices.SortFunc(all, func(a, b history) int {
		return cmp.Or(strings.Compare(a.source, b.source), strings.Compare(a.via, b.via))
	})
	for _, h := range all {
		version := func(e record.Timed[record.Endpoints]) uint64 {
			n, _ := strconv.ParseUint(e.V.Revision, 10, 64)
			return n
		}
		// A state without a version cannot be put anywhere else.
		if !slices.ContainsFunc(h.states, func(e record.Timed[record.Endpoints]) bool { return version(e) == 0 }) {
			slices.SortStableFunc(h.states, func(a, b record.Timed[record.Endpoints]) int { return cmp.Compare(version(a), version(b)) })
		}
	}
	return all
}

// unseen returns the sources of which a record has nothing.
func unseen(all []history) (missing []string) {
	for _, source := range sources {
		if !slices.ContainsFunc(all, func(h history) bool { return h.source == source && len(h.states) > 0 }) {
			missing = append(missing, source)
		}
	}
	return missing
}

// apiServerAddresses returns the addresses of the nodes that are meant to run an
// API server, sorted.
func (m *matter) apiServerAddresses() []string {
	var all []string
	for _, n := range m.nodesWith("kube-apiserver") {
		all = append(all, n.Address)
	}
	slices.Sort(all)
	return all
}

// sameSet tells whether addresses, in whatever order, are those of a sorted list.
func sameSet(addresses, sorted []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(addresses)), sorted)
}

func bracketed(addresses []string) string { return "[" + strings.Join(addresses, " ") + "]" }
