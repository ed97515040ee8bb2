package facts

import "math"

const (
	// Unfair is how unlikely a share of new watches must be, for a balancer that chooses
	// among API servers at random, to say that it does not spread them; doubtful is what
	// leaves that open. Of 30 watches over three servers none at all is unfair, up to two
	// are doubtful.
	Unfair   = 1e-5
	Doubtful = 1e-3
)

// AtMost is how likely it is that at most k of n choices fall on what each falls on with
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
