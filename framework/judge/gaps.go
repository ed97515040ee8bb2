package judge

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// judgeGaps holds the gaps of every entrance between from and to against the bound. It
// returns the longest, and no problem where none is longer than that. An entrance that
// fails is found before one of which nothing can be said.
func judgeGaps(m *matter, entrances []string, from, to record.Nanos) (worst gap, problem *finding) {
	limit := m.bound.Limit
	var vain gap
	var open *finding
	for _, e := range entrances {
		longest, proven, acks := longestGap(m.run, e, from, to)
		if longest.length() > worst.length() || worst.entrance == "" {
			worst = longest
		}
		if proven.proven() > limit && proven.length() > vain.length() {
			vain = proven
		}
		var f finding
		switch {
		case open != nil:
			continue
		case longest.asked == longest.to && longest.length() > limit:
			f = inconclusive("no write was tried through %s from %s for %s, so nothing can be said of it", e, when(longest.from), short(longest.length()))
		case longest.length() > limit:
			f = inconclusive("no write was tried through %s from %s until %s, and none was acknowledged until %s, so nothing can be said of the time before",
				e, when(longest.from), when(longest.asked), when(longest.to))
		case acks == 0:
			f = inconclusive("no write through %s was acknowledged before the fault was healed after %s, which is less than the bound of %s",
				e, short(time.Duration(to-from)), m.bound)
		default:
			continue
		}
		open = &f
	}
	if vain.entrance != "" {
		f := failed("Writes through surviving API servers must resume within %s of the %s: through %s, no write was acknowledged for %s (%s to %s).",
			m.bound, m.fault.what(), vain.entrance, short(vain.length()), when(vain.from), when(vain.to)).
			took(vain.length()).rests(from, vain.to)
		return vain, &f
	}
	return worst, open
}

// enoughAttempts is how many writes, and how many quorum reads, must have been tried through
// each entrance before it can be said that none had an effect.
const enoughAttempts = 10

// attempts counts what was tried through each entrance between from and to. Too little of it
// is a problem.
func (m *matter) attempts(entrances []string, from, to record.Nanos) (counts string, problem *finding) {
	var all []string
	for _, e := range entrances {
		_, writes := acknowledgedWithin(m.run, []string{e}, from, to)
		reads := len(readsThrough(m.run, e, from, to))
		all = append(all, fmt.Sprintf("%s and %s through %s", plural(writes, "write"), plural(reads, "quorum read"), e))
		if problem == nil && min(writes, reads) < enoughAttempts {
			f := inconclusive("%s were tried from %s to %s, and it takes %d of each to say anything", all[len(all)-1], when(from), when(to), enoughAttempts)
			problem = &f
		}
	}
	return and(all), problem
}
