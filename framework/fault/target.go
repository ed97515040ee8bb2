package fault

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/nearest"
)

// role is an alternative to the number or name of a target's node.
type role string

const (
	leader   role = "leader"   // node of the etcd leader
	follower role = "follower" // first node of an etcd follower
	active   role = "active"   // holder of the component's lease
	standby  role = "standby"  // first node whose instance does not hold it
	anyOne   role = "any"      // first node that runs it
	serving  role = "serving"  // the only node that the load balancer sends clients to
)

// kind is the first part of a target.
type kind struct {
	names     []string // the short name first
	component framework.Component
	roles     []role
	lease     string // of an elected component
}

// kinds returns what the first part of a target may be.
func kinds() []kind {
	etcdRoles := []role{leader, follower, anyOne}
	servingRoles := append(slices.Clone(etcdRoles), serving)
	leaseRoles := []role{active, standby, anyOne}
	return []kind{
		{names: []string{"etcd"}, component: framework.Etcd, roles: etcdRoles},
		{names: []string{"apiserver", "kube-apiserver"}, component: framework.APIServer, roles: servingRoles},
		{names: []string{"kcm", "kube-controller-manager"}, component: framework.ControllerManager, roles: leaseRoles, lease: "kube-controller-manager"},
		{names: []string{"scheduler", "kube-scheduler"}, component: framework.Scheduler, roles: leaseRoles, lease: "kube-scheduler"},
		{names: []string{"node"}, roles: servingRoles},
		{names: []string{"agent", string(framework.NodeAgent)}, component: framework.NodeAgent, roles: etcdRoles},
	}
}

// host is a target without a node: a host of the network that is not a control-plane node, or a
// process there.
type host struct {
	names     []string // the short name first
	host      string
	component framework.Component
}

func hosts() []host {
	return []host{
		{names: []string{"balancer", string(framework.LoadBalancer)}, host: framework.BalancerHost, component: framework.LoadBalancer},
		{names: []string{"kwok"}, host: framework.WorkersHost, component: framework.Kwok},
		{names: []string{"workers"}, host: framework.WorkersHost},
		{names: []string{"harness"}, host: framework.HarnessHost},
	}
}

const (
	// zonePrefix is the prefix of the target of a whole zone.
	zonePrefix = "zone/"
	// everyNode is the target of all control-plane nodes at the same time.
	everyNode = "nodes"
)

// reference is a parsed target, not yet resolved.
type reference struct {
	host  *host
	zone  string
	nodes bool // every control-plane node
	kind  kind
	// Exactly one of these is set.
	role   role
	number int        // from 1, in the order in which the nodes joined
	node   string     // the node's name
	of     *reference // on the node of that target
}

// parseTarget parses a target. It checks only the syntax: Resolve finds out whether the node,
// component or leader exists.
func parseTarget(s string) (reference, error) {
	for _, h := range hosts() {
		if slices.Contains(h.names, s) {
			return reference{host: &h}, nil
		}
	}
	if s == everyNode {
		return reference{nodes: true}, nil
	}
	if zone, ok := strings.CutPrefix(s, zonePrefix); ok {
		if zone == "" || !nodeName(zone) {
			return reference{}, fmt.Errorf("target %q: %q is not the name of a zone; targets are %s", s, zone, forms())
		}
		return reference{zone: zone}, nil
	}
	r, err := parseOnNode(s)
	if err != nil {
		return reference{}, fmt.Errorf("target %q: %w; targets are %s", s, err, forms())
	}
	return r, nil
}

func parseOnNode(s string) (reference, error) {
	first, which, ok := strings.Cut(s, "/")
	k, known := kindOf(first)
	alone := first == everyNode || slices.ContainsFunc(hosts(), func(h host) bool { return slices.Contains(h.names, first) })
	switch {
	case !known && alone:
		return reference{}, fmt.Errorf("%q takes no number or name", first)
	case !known:
		return reference{}, fmt.Errorf("%q is not a kind of target%s", first, nearest.Meant(firstWords(), first))
	case !ok || which == "":
		return reference{}, fmt.Errorf("it does not say which %s", first)
	}
	r := reference{kind: k}
	if strings.Contains(which, "/") {
		of, err := parseOnNode(which)
		switch {
		case err != nil:
			return reference{}, err
		case of.kind.names[0] == k.names[0] || of.kind.component == "" || of.of != nil:
			return reference{}, fmt.Errorf("%q after %q: only another component may follow, such as %s", which, first, k.example())
		}
		r.of = &of
		return r, nil
	}
	if slices.Contains(k.roles, role(which)) {
		r.role = role(which)
		return r, nil
	}
	if slices.Contains([]role{leader, follower, active, standby, anyOne, serving}, role(which)) {
		return reference{}, fmt.Errorf("%q does not fit %q, which takes %s", which, first, strings.Join(append(k.roleNames(), "a number from 1", "a node's name"), ", "))
	}
	if n, err := strconv.ParseUint(which, 10, 16); err == nil {
		if n == 0 {
			return reference{}, fmt.Errorf("nodes are numbered from 1")
		}
		r.number = int(n)
		return r, nil
	}
	if !nodeName(which) {
		return reference{}, fmt.Errorf("%q is not the name of a node", which)
	}
	r.node = which
	return r, nil
}

// firstWords are the words that a target may start with.
func firstWords() []string {
	all := []string{strings.TrimSuffix(zonePrefix, "/"), everyNode}
	for _, k := range kinds() {
		all = append(all, k.names...)
	}
	for _, h := range hosts() {
		all = append(all, h.names...)
	}
	return all
}

func kindOf(name string) (kind, bool) {
	all := kinds()
	i := slices.IndexFunc(all, func(k kind) bool { return slices.Contains(k.names, name) })
	if i < 0 {
		return kind{}, false
	}
	return all[i], true
}

// nodeName reports whether s could be a node's name: a DNS name in lower case.
func nodeName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return len(s) <= 253
}

func (k kind) roleNames() []string {
	return framework.Names(k.roles, func(r role) string { return string(r) })
}

func (k kind) example() string {
	if k.lease != "" {
		return k.names[0] + "/etcd/leader"
	}
	return k.names[0] + "/kcm/active"
}

// Examples returns targets of every form that does not name a node, for completion.
func Examples() []string {
	var all []string
	for _, k := range kinds() {
		for _, r := range k.roles {
			all = append(all, k.names[0]+"/"+string(r))
		}
		all = append(all, k.names[0]+"/1")
	}
	for _, h := range hosts() {
		all = append(all, h.names[0])
	}
	return append(all, everyNode, "node/kcm/active", "apiserver/kcm/active")
}

// forms lists all forms of targets as text.
func forms() string {
	var all []string
	for _, k := range kinds() {
		all = append(all, fmt.Sprintf("%s/{%s,NUMBER,NODE}", k.names[0], strings.Join(k.roleNames(), ",")))
	}
	all = append(all, zonePrefix+"ZONE", everyNode)
	for _, h := range hosts() {
		all = append(all, h.names[0])
	}
	return strings.Join(all, ", ") + ", and, for the node of another component, such as node/kcm/active or apiserver/scheduler/standby"
}
