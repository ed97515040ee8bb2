// Package upgrading contains what is shared by providers that upgrade the nodes of a running
// cluster: the version skew policy and the preconditions on a node.
//
// Its tests have no requirements: go test ./clusters/internal/upgrading
package upgrading

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/holdfast-ha/holdfast/framework"
)

// Minor returns the minor version: 37 of v1.37.1.
func Minor(version string) int {
	_, digits, _ := strings.Cut(semver.MajorMinor(version), ".")
	n, _ := strconv.Atoi(digits)
	return n
}

// APIServers returns why an API server must not change to a version, given the versions of all
// nodes' API servers, its own included: API servers may be one minor version apart
// (https://kubernetes.io/releases/version-skew-policy).
func APIServers(version string, nodes map[string]string) error {
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		switch apart := Minor(version) - Minor(nodes[node]); {
		case apart > 1:
			return fmt.Errorf("API servers must be within one minor version, and that of %s is %s: upgrade all control-plane nodes to v1.%d first", node, nodes[node], Minor(nodes[node])+1)
		case apart < -1:
			return fmt.Errorf("API servers must be within one minor version, and that of %s is %s: downgrade all control-plane nodes to v1.%d first", node, nodes[node], Minor(nodes[node])-1)
		}
	}
	return nil
}

// Undisturbed returns an error if a fault that would affect an upgrade is active on one of a
// node's processes.
func Undisturbed(all []framework.Process) error {
	for _, p := range all {
		state := ""
		switch {
		case p.Held:
			state = "held down"
		case p.CrashLooped:
			state = "killed after each start"
		case p.State == "T":
			state = "frozen"
		default:
			continue
		}
		return fmt.Errorf("its %s is %s by a fault: heal that (`holdfast heal`) first", p.Component, state)
	}
	return nil
}
