package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// resolveLimit is how long Resolve waits for a leader or an active instance:
// longer than a default lease takes to change hands.
const resolveLimit = 30 * time.Second

// errNoInstance reports that a role cannot be resolved, because no instance has it now.
var errNoInstance = errors.New("no instance is in that role at the moment")

// Resolve resolves a target at this moment:
//
//	etcd/leader      the member that a majority of the members names leader
//	etcd/follower    the first other member that runs
//	etcd/2           the member on the second node, in the order of joining. If members have
//	                 hosts of their own, numbers count the nodes with the target
//	etcd/node-2      the member on that node
//	etcd/any         the first member that runs
//	apiserver/...    as for etcd: apiserver/leader is on the etcd leader's node. If members have
//	                 hosts of their own, apiserver/follower is the first API server that runs
//	apiserver/serving the one that the load balancer sends clients to, where it is one:
//	                 on the node that holds the address that moves (vip); likewise node/serving
//	kcm/active       the controller manager that holds the lease
//	kcm/standby      the first running one that does not; likewise scheduler/...
//	node/...         a whole node, as for etcd
//	node/kcm/active  the node of that component; likewise apiserver/kcm/active
//	agent/...        a node's process watcher, as for etcd
//	zone/b           every node of fault domain b
//	nodes            every control-plane node
//	balancer         the load balancer
//	kwok             the process that simulates the worker nodes
//	workers, harness hosts of the network, for faults of the network and of names
//
// Components may be written in full (kube-controller-manager/active). While there is no leader or
// holder, Resolve waits for one, at most 30 seconds. It does not check whether a target that is
// named explicitly runs: the fault's proof does.
func Resolve(ctx context.Context, c framework.Cluster, target string) (Target, error) {
	return ResolveFrom(ctx, c, target, "")
}

// ResolveFrom is Resolve, except that for a role with several candidate nodes it starts with the
// node of this name, in the order of joining, instead of the first.
func ResolveFrom(ctx context.Context, c framework.Cluster, target, first string) (Target, error) {
	r, err := parseTarget(target)
	if err != nil {
		return Target{}, err
	}
	t := Target{Asked: target}
	switch {
	case r.host != nil:
		if r.host.component == framework.LoadBalancer {
			if _, ok := entranceOf(c, "", framework.LoadBalancer); !ok {
				return Target{}, &MissingAbility{Ability: loadBalancer, Of: "cluster " + c.Name(), For: "target " + target}
			}
		}
		t.Host, t.Component = r.host.host, r.host.component
		return t, nil
	case r.zone != "":
		t.Nodes, err = nodesOfZone(c, r.zone)
		if err != nil {
			return Target{}, fmt.Errorf("target %s: %w", target, err)
		}
		return t, nil
	}
	if r.nodes {
		t.Nodes = framework.NodeNames(c.Nodes())
		return t, nil
	}
	t.Component = r.kind.component
	if t.Node, err = (resolver{c, first}).nodeOf(ctx, r); err != nil {
		return Target{}, fmt.Errorf("target %s: %w", target, err)
	}
	return t, nil
}

// nodesOfZone returns the names of the nodes of a fault domain.
func nodesOfZone(c framework.Cluster, zone string) ([]string, error) {
	var names, zones []string
	for _, n := range c.Nodes() {
		z, err := Ability[framework.Zoner](n, "node "+n.Name(), "a zone as a target")
		if err != nil {
			return nil, err
		}
		if z.Zone() == zone {
			names = append(names, n.Name())
		}
		zones = append(zones, n.Name()+" in "+strconv.Quote(z.Zone()))
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no node of cluster %s is in zone %q: %s", c.Name(), zone, strings.Join(zones, ", "))
	}
	return names, nil
}

type resolver struct {
	framework.Cluster
	first string // node to check first if there is a choice
}

// nodeOf returns the name of the node that a reference denotes.
func (c resolver) nodeOf(ctx context.Context, r reference) (string, error) {
	candidates := c.candidates(r.kind)
	if len(candidates) == 0 && r.kind.component == framework.Etcd {
		return "", c.externalEtcd()
	}
	if len(candidates) == 0 {
		return "", fmt.Errorf("no node of cluster %s runs %s", c.Name(), r.kind.component)
	}
	var name string
	var err error
	switch {
	case r.of != nil:
		name, err = c.nodeOf(ctx, *r.of)
	case r.number > len(c.Nodes()):
		err = fmt.Errorf("node %d does not exist: the nodes are %s", r.number, strings.Join(framework.NodeNames(c.Nodes()), ", "))
	case r.number > len(c.counted(r.kind)):
		err = &MissingAbility{Ability: "Node", Of: "cluster " + c.Name(), For: fmt.Sprintf("a target with the number %d", r.number),
			Why: fmt.Sprintf("%s runs on %s only", r.kind.component, strings.Join(framework.NodeNames(candidates), ", "))}
	case r.number > 0:
		name = c.counted(r.kind)[r.number-1].Name()
	case r.node != "":
		name = r.node
	case r.role == anyOne:
		name, err = c.running(ctx, r.kind, "")
	case r.role == serving:
		name, err = c.serving(ctx)
	case r.role == leader || r.role == follower:
		if name, err = c.etcdLeader(ctx); err == nil && r.role == follower {
			name, err = c.running(ctx, c.follows(r.kind), name)
		}
	default:
		if name, err = c.holder(ctx, r.kind); err == nil && r.role == standby {
			name, err = c.running(ctx, r.kind, name)
		}
	}
	if err != nil {
		return "", err
	}
	if !slices.Contains(framework.NodeNames(candidates), name) {
		if !slices.Contains(framework.NodeNames(c.Nodes()), name) {
			return "", fmt.Errorf("control-plane node %q does not exist: the nodes are %s", name, strings.Join(framework.NodeNames(c.Nodes()), ", "))
		}
		return "", fmt.Errorf("node %s does not run %s, which runs on %s", name, r.kind.component, strings.Join(framework.NodeNames(candidates), ", "))
	}
	return name, nil
}

// external reports whether etcd members have hosts of their own.
func (c resolver) external() bool {
	members := framework.NodesWith(c, framework.Etcd)
	return len(members) > 0 && !slices.ContainsFunc(members, func(n framework.Node) bool { return slices.Contains(n.Components(), framework.APIServer) })
}

// counted returns the nodes that the number of a target counts.
func (c resolver) counted(k kind) []framework.Node {
	if c.external() {
		return c.candidates(k)
	}
	return c.Nodes()
}

// follows returns the kind of what must run on the node of a follower: a member or, if members have
// hosts of their own, an API server, which does not run there.
func (c resolver) follows(k kind) kind {
	if k.component == framework.APIServer && c.external() {
		return k
	}
	return kind{names: []string{"etcd"}, component: framework.Etcd}
}

// serving returns the only node that the load balancer sends clients to.
func (c resolver) serving(ctx context.Context) (string, error) {
	reporter, err := Ability[framework.BackendReporter](c.Cluster, "cluster "+c.Name(), "finding the node that the load balancer sends clients to")
	if err != nil {
		return "", err
	}
	return awaitNode(ctx, func(ctx context.Context) (string, error) {
		backends, err := reporter.Backends(ctx)
		if err != nil {
			return "", err
		}
		var up []string
		for _, b := range backends {
			if b.Up {
				up = append(up, b.Name)
			}
		}
		if len(up) != 1 {
			return "", fmt.Errorf("the load balancer of cluster %s sends clients to %d nodes (%s), not to a single one", c.Name(), len(up), strings.Join(up, ", "))
		}
		return up[0], nil
	})
}

// candidates returns the nodes on which a kind of target can be.
func (c resolver) candidates(k kind) []framework.Node {
	if k.component == "" || k.component == framework.NodeAgent {
		return c.Nodes()
	}
	return framework.NodesWith(c, k.component)
}

// running returns the first node, other than except, that is on and on which
// the component runs, as far as the provider reports.
func (c resolver) running(ctx context.Context, k kind, except string) (string, error) {
	var why []string
	for _, n := range c.fromFirst(c.candidates(k)) {
		if n.Name() == except {
			continue
		}
		down := c.down(ctx, n, k.component)
		if down == "" {
			return n.Name(), nil
		}
		why = append(why, down)
	}
	if len(why) == 0 {
		return "", fmt.Errorf("%w: the only %s is the one on %s", errNoInstance, k.names[0], except)
	}
	return "", fmt.Errorf("%w: %s", errNoInstance, strings.Join(why, ", "))
}

// fromFirst returns the nodes in the order of joining, starting with the one to check first.
func (c resolver) fromFirst(nodes []framework.Node) []framework.Node {
	i := max(slices.IndexFunc(nodes, func(n framework.Node) bool { return n.Name() == c.first }), 0)
	return slices.Concat(nodes[i:], nodes[:i])
}

// down describes that a component does not run, or that the node does not if component is empty;
// empty means that it does or that the provider does not report it.
func (c resolver) down(ctx context.Context, n framework.Node, component framework.Component) string {
	if framework.PoweredOff(ctx, n) {
		return fmt.Sprintf("node %s is powered off", n.Name())
	}
	if reporter, ok := n.(framework.ProcessReporter); ok && component != "" {
		p, err := reporter.Process(ctx, component)
		if err != nil {
			return fmt.Sprintf("failed to read the state of %s on %s: %v", component, n.Name(), err)
		}
		if p.Ended() {
			return fmt.Sprintf("%s on %s does not run", component, n.Name())
		}
	}
	return ""
}

// externalEtcd is the error for a target in etcd if etcd runs on none of the nodes.
func (c resolver) externalEtcd() error {
	return &MissingAbility{Ability: "EtcdAccess", Of: "cluster " + c.Name(), For: "a target in etcd", Why: "none of its nodes runs an etcd member"}
}

// etcdLeader returns the node of the etcd leader.
func (c resolver) etcdLeader(ctx context.Context) (string, error) {
	if _, err := Ability[framework.EtcdAccess](c.Cluster, "cluster "+c.Name(), "finding the etcd leader"); err != nil {
		return "", err
	}
	if len(framework.NodesWith(c, framework.Etcd)) == 0 {
		return "", c.externalEtcd()
	}
	all, err := openMembers(c.Cluster)
	if err != nil {
		return "", err
	}
	defer all.Close()
	return awaitNode(ctx, func(ctx context.Context) (string, error) {
		found, err := leadershipOf(ctx, all)
		return found.leader, err
	})
}

// awaitNode calls find until it succeeds, and returns its node. After resolveLimit the error is
// errNoInstance with the text of find's last error.
func awaitNode(ctx context.Context, find func(context.Context) (string, error)) (name string, err error) {
	_, held, seen := await(ctx, resolveLimit, func(ctx context.Context) (bool, string) {
		if name, err = find(ctx); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
	if !held {
		return "", fmt.Errorf("%w: %s", errNoInstance, seen)
	}
	return name, nil
}
