package judge

import (
	"cmp"
	"slices"
)

// conclude makes a finding of what a judge of lists or watches found. must is the
// guarantee, pass what is said where it holds, and of what was judged.
func conclude(must, pass, of string, breaches []breach) finding {
	if len(breaches) == 0 {
		return passed("%s", pass).counted("%s", of)
	}
	slices.SortStableFunc(breaches, func(a, b breach) int { return cmp.Compare(a.at, b.at) })
	first := breaches[0]
	f := failed("%s: %s.", must, first.what).counted("%d breaches, %s", len(breaches), of).shows(first.evidence...)
	for _, b := range breaches[1:] {
		f = f.shows("also: " + b.what)
	}
	f.exhibit = exhibitOf(first.what, first.spans)
	return f
}
