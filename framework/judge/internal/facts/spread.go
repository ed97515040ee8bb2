package facts

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// Spread reports whether clients of an entrance were seen on several API servers before any fault
// or change: if not, the balancer may choose by their address, which they have in common. Later they
// may have been on several, although all moved together.
func (m *Matter) Spread(entrance string) bool {
	until := m.UntilNext(0)
	seen := map[string]bool{}
	for _, p := range slices.Concat(m.Run.ClientProbes, m.Run.Probes) {
		if p.V.Entrance == entrance && p.V.Server != "" && p.V.Start < until {
			seen[p.V.Server] = true
		}
	}
	for _, w := range record.Each(m.Run.Watches) {
		if w.API != APIKubernetes || w.Phase != record.WatchOpened || w.Entrance != entrance || w.Called >= until || !m.Names(w.Server) {
			continue
		}
		for _, n := range m.Run.Meta.Nodes {
			if slices.Contains(w.Server, n.Address) {
				seen[n.Name] = true
			}
		}
	}
	return len(seen) > 1
}
