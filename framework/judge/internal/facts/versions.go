package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Minor is a minor version.
type Minor struct{ major, minor int }

// Newer is by how many minor versions v is newer; ok is false if the major versions differ, for
// which there is no policy.
func (v Minor) Newer(other Minor) (n int, ok bool) {
	return v.minor - other.minor, v.major == other.major
}

// ParseMinor reads a version such as v1.37.1 or v1.38.0-alpha.1+abc.
func ParseMinor(version string) (v Minor, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return v, false
	}
	var err, err2 error
	v.major, err = strconv.Atoi(parts[0])
	v.minor, err2 = strconv.Atoi(parts[1])
	return v, err == nil && err2 == nil
}

// Released is the version of a component on a node.
type Released struct {
	Node, Component, Version string
	Minor
}

func Extremes(all []Released) (oldest, newest Released) {
	byAge := func(a, b Released) int { return cmp.Or(a.major-b.major, a.Minor.minor-b.Minor.minor) }
	return slices.MinFunc(all, byAge), slices.MaxFunc(all, byAge)
}

func (v Minor) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

func (r Released) String() string { return fmt.Sprintf("%s %s on %s", r.Component, r.Version, r.Node) }
