// Package nearest finds the names closest to a mistyped one.
package nearest

import (
	"cmp"
	"slices"
	"strings"
)

// Names returns up to n of all names that need the fewest letter changes to become want, ignoring
// case.
func Names(all []string, want string, n int) []string {
	names := slices.Compact(slices.Sorted(slices.Values(all)))
	far := func(name string) int { return changes(strings.ToLower(name), strings.ToLower(want)) }
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(far(a), far(b)) })
	return names[:min(n, len(names))]
}

// Meant returns ", did you mean X?" for the name that want looks mistyped from; empty if none is
// near.
func Meant(all []string, want string) string {
	near := Names(all, want, 1)
	if len(near) == 0 || want == "" || changes(strings.ToLower(near[0]), strings.ToLower(want)) > min(3, max(1, min(len(want), len(near[0]))/2)) {
		return ""
	}
	return ", did you mean " + near[0] + "?"
}

// changes counts the letters to insert, delete or replace to turn a into b (the Levenshtein
// distance).
func changes(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
