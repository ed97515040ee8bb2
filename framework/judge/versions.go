package judge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// minor is a minor version.
type minor struct{ major, minor int }

// newer is by how many minor versions v is the newer one; ok is false where the
// major versions differ, for which there is no policy.
func (v minor) newer(other minor) (n int, ok bool) {
	return v.minor - other.minor, v.major == other.major
}

// parseMinor reads a version such as v1.37.1 or v1.38.0-alpha.1+abc.
func parseMinor(version string) (v minor, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return v, false
	}
	var err, err2 error
	v.major, err = strconv.Atoi(parts[0])
	v.minor, err2 = strconv.Atoi(parts[1])
	return v, err == nil && err2 == nil
}

// released is the version of a component on a node.
type released struct {
	node, component, version string
	minor
}

func extremes(all []released) (oldest, newest released) {
	byAge := func(a, b released) int {
		if a.major != b.major {
			return a.major - b.major
		}
		return a.minor.minor - b.minor.minor
	}
	return slices.MinFunc(all, byAge), slices.MaxFunc(all, byAge)
}

func (v minor) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

func (r released) String() string { return fmt.Sprintf("%s %s on %s", r.component, r.version, r.node) }
