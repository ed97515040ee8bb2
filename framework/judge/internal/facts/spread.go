package facts

import (
	"math"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// Spread reports whether clients of an entrance were seen on several API servers before any fault
// or change: if not, the balancer may choose by their address, which they have in common. Later they
// may have been on several, although all moved together.
func (m *Case) Spread(entrance string) bool {
	until := m.UntilNext(0)
	seen := map[string]bool{}
	for _, p := range slices.Concat(m.Run.ClientProbes, m.Run.Probes) {
		if p.V.Entrance == entrance && p.V.Server != "" && p.V.Start < until {
			seen[p.V.Server] = true
		}
	}
	for _, w := range record.Each(m.Run.Watches) {
		if node := m.ServerOf(w.Server); node != "" && w.API == APIKubernetes && w.Phase == record.WatchOpened && w.Entrance == entrance && w.Called < until {
			seen[node] = true
		}
	}
	return len(seen) > 1
}

const (
	// Unfair is the probability below which a share of new watches shows that a balancer that
	// chooses API servers at random does not spread them; doubtful leaves that open. Of 30
	// watches over three servers none at all is unfair, up to two are doubtful.
	Unfair   = 1e-5
	Doubtful = 1e-3
)

// AtMost is the probability that at most k of n choices pick something that each picks with
// probability p.
func AtMost(k, n int, p float64) float64 {
	if p >= 1 {
		return 1 // there is nothing to choose from
	}
	sum, term := 0.0, math.Pow(1-p, float64(n))
	for i := 0; i <= min(k, n); i++ {
		sum += term
		term *= float64(n-i) / float64(i+1) * p / (1 - p)
	}
	return sum
}
