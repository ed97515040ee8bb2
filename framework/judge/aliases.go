package judge

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// The words of a verdict are a package of their own, below the judges; users find them here.
type (
	Verdict = verdict.Verdict
	Bound   = verdict.Bound
	Exhibit = verdict.Exhibit
	Span    = verdict.Span
	Period  = verdict.Period
	Doc     = verdict.Doc
)

const (
	Pass          = verdict.Pass
	Fail          = verdict.Fail
	Inconclusive  = verdict.Inconclusive
	NotApplicable = verdict.NotApplicable
)

// ParseBound computes a limit from a formula such as "2E + M": see verdict.ParseBound.
func ParseBound(formula string, symbols map[string]time.Duration) (Bound, error) {
	return verdict.ParseBound(formula, symbols)
}

// Outage is a time in which no probe of a series succeeded.
type Outage = facts.Outage

// Outages returns the outages that probes of one series saw, in the order of time. What
// makes a series is up to the caller: all probes of an entrance, or those of one kind.
func Outages(probes []record.Probe) []Outage { return facts.Outages(probes) }
