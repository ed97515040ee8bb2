package release

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"
)

// near returns up to n of all versions that are closest to want, oldest first. Pre-releases are
// included only if want is one.
func near(all []string, want string, n int) []string {
	all = slices.DeleteFunc(slices.Clone(all), func(v string) bool {
		return !semver.IsValid(v) || v == want || (semver.Prerelease(v) != "" && semver.Prerelease(want) == "")
	})
	semver.Sort(all)
	all = slices.Compact(all)
	slices.SortStableFunc(all, func(a, b string) int {
		return slices.Compare(distance(a, want), distance(b, want))
	})
	all = all[:min(n, len(all))]
	semver.Sort(all)
	return all
}

// distance returns how far two versions are apart in major, minor and patch. If majors or
// minors differ, a higher patch is nearer: it is in wider use.
func distance(v, want string) []int {
	a, b := numbers(v), numbers(want)
	d := make([]int, 3)
	for i := range d {
		if d[i] = max(a[i]-b[i], b[i]-a[i]); d[i] != 0 && i < 2 {
			d[2] = -a[2]
			break
		}
	}
	return d
}

func numbers(v string) (n [3]int) {
	core, _, _ := strings.Cut(strings.TrimPrefix(semver.Canonical(v), "v"), "-")
	for i, s := range strings.SplitN(core, ".", 3) {
		n[i], _ = strconv.Atoi(s)
	}
	return n
}
