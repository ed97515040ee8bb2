package vnet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// distributions of a jitter.
const (
	// uniform spreads the delay evenly over Delay ± Jitter.
	uniform = "uniform"
	// normal gives a bell curve around Delay with Jitter as its standard
	// deviation.
	normal = "normal"
	// pareto gives many packets a little less than Delay and a few much more:
	// mean Delay, standard deviation Jitter, shape 3, as netem's table has it
	// (a little less of both, for the tail ends at four deviations).
	pareto = "pareto"
)

// distributions returns the names of all distributions, the default first.
func distributions() []string { return []string{uniform, normal, pareto} }

func validateDistribution(name string) error {
	if name == "" || slices.Contains(distributions(), name) {
		return nil
	}
	return fmt.Errorf("unknown distribution %q of jitter: want one of %s", name, strings.Join(distributions(), ", "))
}

// farthest is how many standard deviations a delay is from its mean at most.
// That is where netem's tables end too.
const farthest = 4

// jitter returns by how much one packet's delay differs from the mean.
func jitter(rng *rand.Rand, distribution string, by time.Duration) time.Duration {
	var deviations float64
	switch distribution {
	case normal:
		deviations = rng.NormFloat64()
	case pareto:
		// A Pareto variable of shape 3 from 1 on has mean 3/2 and variance 3/4.
		deviations = (math.Pow(1-rng.Float64(), -1.0/3) - 1.5) / math.Sqrt(0.75)
	default:
		deviations = 2*rng.Float64() - 1
	}
	return time.Duration(max(-farthest, min(farthest, deviations)) * float64(by))
}
