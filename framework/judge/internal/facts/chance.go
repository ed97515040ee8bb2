package facts

import "math"

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
