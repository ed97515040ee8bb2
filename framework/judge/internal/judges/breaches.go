package judges

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
)

// conclude makes a finding from the results of a judge of lists or watches. must is the
// guarantee, pass the sentence if it holds, where there is more to say than that, and of what was
// judged.
func conclude(must, pass, of string, breaches []facts.Breach) Finding {
	if len(breaches) == 0 {
		pass = cmp.Or(pass, fmt.Sprintf("%s: this was checked for %s, without a violation.", must, of))
		return Passed("%s", pass).counted("%s", of)
	}
	slices.SortStableFunc(breaches, func(a, b facts.Breach) int { return cmp.Compare(a.At, b.At) })
	first := breaches[0]
	f := Failed("%s: %s.", must, first.What).counted("%d breaches, %s", len(breaches), of).Shows(first.Evidence...)
	for _, b := range breaches[1:] {
		f = f.Shows("also: " + b.What)
	}
	f.Exhibit = facts.ExhibitOf(first.What, first.Spans)
	return f
}
