package verdict

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
)

// ParseBound computes a limit from a formula such as "2E + M" or "5s + M": a sum of symbols, each
// with an optional decimal factor before it, and of durations as Go writes them. An error names
// the term and the allowed ones.
func ParseBound(formula string, symbols map[string]time.Duration) (Bound, error) {
	b := Bound{Formula: formula, Inputs: map[string]time.Duration{}}
	for term := range strings.SplitSeq(formula, "+") {
		term = strings.TrimSpace(term)
		value, symbol, err := parseTerm(term, symbols)
		if err != nil {
			return Bound{}, fmt.Errorf("bound %q: %w", formula, err)
		}
		if symbol != "" {
			b.Inputs[symbol] = symbols[symbol]
		}
		if b.Limit > math.MaxInt64-value {
			return Bound{}, fmt.Errorf("bound %q: the sum is longer than 292 years", formula)
		}
		b.Limit += value
	}
	return b, nil
}

// parseTerm returns a term's value and the symbol in it, if there is one.
func parseTerm(term string, symbols map[string]time.Duration) (time.Duration, string, error) {
	if term == "" {
		return 0, "", fmt.Errorf("a term is missing; write a sum such as \"2E + M\" or \"5s + M\"")
	}
	digits := len(term) - len(strings.TrimLeft(term, "0123456789."))
	symbol := strings.TrimSpace(term[digits:])
	value, known := symbols[symbol]
	if !known {
		d, err := time.ParseDuration(term)
		if err != nil {
			return 0, "", fmt.Errorf("%q is neither a symbol (%s) with an optional factor nor a duration such as 5s or 300ms",
				term, strings.Join(slices.Sorted(maps.Keys(symbols)), ", "))
		}
		if d < 0 || term[0] == '-' {
			return 0, "", fmt.Errorf("%q is negative", term)
		}
		return d, "", nil
	}
	if value < 0 {
		return 0, "", fmt.Errorf("the setting %s is negative (%s)", symbol, value)
	}
	if digits == 0 {
		return value, symbol, nil
	}
	factor, err := strconv.ParseFloat(term[:digits], 64)
	if err != nil || factor*float64(value) >= math.MaxInt64 {
		return 0, "", fmt.Errorf("the factor of %q is not a number, or the product longer than 292 years", term)
	}
	return time.Duration(math.Round(factor * float64(value))), symbol, nil
}

// String returns the limit with its formula and inputs: "4s (2E + M, E = 1s, M = 2s)".
func (b Bound) String() string {
	parts := []string{b.Formula}
	for _, symbol := range slices.Sorted(maps.Keys(b.Inputs)) {
		parts = append(parts, fmt.Sprintf("%s = %s", symbol, text.Short(b.Inputs[symbol])))
	}
	return fmt.Sprintf("%s (%s)", text.Short(b.Limit), strings.Join(parts, ", "))
}

// Plus returns the bound with another summand under a name of its own.
func (b Bound) Plus(name string, d time.Duration) Bound {
	inputs := maps.Clone(b.Inputs)
	inputs[name] = d
	return Bound{Formula: b.Formula + " + " + name, Inputs: inputs, Limit: b.Limit + d}
}
