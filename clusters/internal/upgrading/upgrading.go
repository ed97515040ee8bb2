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

// APIServer returns why an API server must not change to a version, given the versions of the
// components of all control-plane nodes, its own included; an empty version is unknown. API
// servers may be one minor version apart, and a controller manager or a scheduler at most one
// older than an API server (https://kubernetes.io/releases/version-skew-policy).
func APIServer(version string, nodes map[string]map[framework.Component]string) error {
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		for _, c := range []framework.Component{framework.APIServer, framework.ControllerManager, framework.Scheduler} {
			v := nodes[node][c]
			switch apart := Minor(version) - Minor(v); {
			case v == "":
			case c == framework.APIServer && apart > 1:
				return fmt.Errorf("API servers must be within one minor version, and that of %s is %s: upgrade all control-plane nodes to v1.%d first", node, v, Minor(v)+1)
			case c == framework.APIServer && apart < -1:
				return fmt.Errorf("API servers must be within one minor version, and that of %s is %s: downgrade all control-plane nodes to v1.%d first", node, v, Minor(v)-1)
			case apart > 1:
				return fmt.Errorf("%s may be at most one minor version older than an API server, and that of %s is %s: complete the upgrade of that node to v1.%d first", c, node, v, Minor(v)+1)
			}
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
