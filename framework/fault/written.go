package fault

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// Naming is what a target names explicitly, or the role by which it finds a node; all is empty
// for a host and all nodes.
type Naming struct {
	// Number is the number of a node, from 1, in the order of joining.
	Number int
	// Node and Zone are names.
	Node, Zone string
	// Of is the component with the Role, such as kcm of role active.
	Of, Role string
	// Component is that of Of; empty for a node.
	Component framework.Component
}

// Names returns what a target names explicitly. An error says what is wrong with its syntax.
func Names(target string) (Naming, error) {
	r, err := parseTarget(target)
	if err != nil {
		return Naming{}, err
	}
	for r.of != nil {
		r = *r.of
	}
	n := Naming{Number: r.number, Node: r.node, Zone: r.zone, Role: string(r.role)}
	if n.Role != "" {
		n.Of, n.Component = r.kind.names[0], r.kind.component
	}
	return n, nil
}

// Shifted returns a target with the number of each node raised by a shift, modulo the number of
// nodes. A target without a number is unchanged.
func Shifted(target string, by, nodes int) string {
	n, err := Names(target)
	if err != nil || n.Number == 0 || n.Number > nodes {
		return target
	}
	number := strings.LastIndexByte(target, '/') + 1
	return target[:number] + strconv.Itoa((n.Number-1+by)%nodes+1)
}

// ShiftedParams is Shifted for the parameters of a fault that name parties.
func ShiftedParams(f *Fault, values map[string]string, by, nodes int) map[string]string {
	shifted := maps.Clone(values)
	for _, p := range f.Params {
		if v := values[p.Name]; p.parties && v != "" {
			groups := strings.Split(v, ",")
			for i, group := range groups {
				words := strings.Split(group, "+")
				for j, word := range words {
					words[j] = strings.TrimPrefix(Shifted("node/"+strings.TrimPrefix(strings.TrimSpace(word), "node/"), by, nodes), "node/")
				}
				groups[i] = strings.Join(words, "+")
			}
			shifted[p.Name] = strings.Join(groups, ",")
		}
	}
	return shifted
}

// Place is a control-plane node that a cluster will have.
type Place struct{ Name, Zone string }

// CheckWritten refuses a written injection of a built-in fault that cannot work on a cluster of
// these nodes: parameters out of range, or a kind of target that the fault does not accept.
// Without nodes it refuses what fits no cluster. Check covers what depends on the state of a
// cluster.
func CheckWritten(f *Fault, target string, values map[string]string, nodes []Place) error {
	r, err := parseTarget(target)
	if err != nil {
		return err
	}
	if !slices.Contains(All(), f) {
		return nil // a user's own fault, which may query a cluster for anything
	}
	if len(nodes) == 0 {
		nodes = []Place{{"node-1", "a"}, {"node-2", "b"}, {"node-3", "c"}}
		values = maps.Clone(values)
		for _, p := range f.Params {
			if p.parties {
				delete(values, p.Name)
			}
		}
	}
	c := &paperCluster{}
	for _, n := range nodes {
		c.nodes = append(c.nodes, &paperNode{Place: n})
	}
	t := r.onPaper(target, c.nodes)
	// The time to live is a formula, which a cluster's settings evaluate.
	err = f.Check(c, t, Params{TTL: paperTTL, Values: values})
	if errors.As(err, new(*MissingAbility)) {
		return nil
	}
	return err
}

// paperTTL is longer than any parameter may be.
const paperTTL = 365 * 24 * time.Hour

// onPaper returns the target with the first node for each role.
func (r reference) onPaper(asked string, nodes []framework.Node) Target {
	t := Target{Asked: asked, Component: r.kind.component, Node: nodes[0].Name()}
	switch {
	case r.host != nil:
		return Target{Asked: asked, Host: r.host.host, Component: r.host.component}
	case r.zone != "":
		return Target{Asked: asked, Nodes: []string{t.Node}}
	case r.nodes:
		return Target{Asked: asked, Nodes: framework.NodeNames(nodes)}
	case r.number > 0 && r.number <= len(nodes):
		t.Node = nodes[r.number-1].Name()
	case r.node != "" && slices.Contains(framework.NodeNames(nodes), r.node):
		t.Node = r.node
	}
	return t
}

// paperCluster is a cluster to check faults against before the real one exists. It has every
// ability and can do nothing.
type paperCluster struct {
	nodes []framework.Node
	framework.EtcdAccess
	framework.BackendReporter
	framework.DNSFaulter
	framework.HostPresser
	framework.NetworkFaulter
	framework.ProcessReporter
	framework.Killer
	framework.Stopper
	framework.Starter
	framework.Freezer
}

// paperNode is one of its nodes.
type paperNode struct {
	Place
	framework.CertificateFaulter
	framework.ClockShifter
	framework.CrashLooper
	framework.DiskDamager
	framework.DiskFaulter
	framework.DiskWiper
	framework.EtcdOperator
	framework.Freezer
	framework.Killer
	framework.Pauser
	framework.PowerLoser
	framework.PowerSwitch
	framework.Presser
	framework.ProcessReporter
	framework.Starter
	framework.Stopper
}

// Name implements framework.Cluster.
func (c *paperCluster) Name() string { return "on paper" }

// Nodes implements framework.Cluster.
func (c *paperCluster) Nodes() []framework.Node { return c.nodes }

// Entrances implements framework.Cluster.
func (c *paperCluster) Entrances() []framework.Entrance {
	all := []framework.Entrance{{Name: framework.BalancerHost, Kind: framework.EntranceBalancer}}
	for _, n := range c.nodes {
		all = append(all, framework.Entrance{Name: n.Name(), Kind: framework.EntranceAPIServer, Node: n.Name()})
	}
	return all
}

// Settings implements framework.Cluster.
func (c *paperCluster) Settings() framework.Settings { return framework.Settings{} }

// Versions implements framework.Cluster.
func (c *paperCluster) Versions() map[string]map[framework.Component]string { return nil }

// Parties implements framework.NetworkFaulter.
func (c *paperCluster) Parties() []string {
	return append(framework.NodeNames(c.nodes), framework.BalancerHost, framework.WorkersHost, framework.HarnessHost)
}

// Names implements framework.DNSFaulter: the names are not known yet.
func (c *paperCluster) Names() []string { return nil }

// EndsWithProcess implements framework.Mortal.
func (c *paperCluster) EndsWithProcess() {}

// PresserOf implements framework.HostPresser.
func (c *paperCluster) PresserOf(string) (framework.Presser, error) {
	return c.nodes[0].(*paperNode), nil
}

// Name implements framework.Node.
func (n *paperNode) Name() string { return n.Place.Name }

// Address implements framework.Node.
func (n *paperNode) Address() netip.Addr { return netip.IPv4Unspecified() }

// Components implements framework.Node.
func (n *paperNode) Components() []framework.Component {
	return []framework.Component{framework.Etcd, framework.APIServer, framework.ControllerManager, framework.Scheduler}
}

// Zone implements framework.Zoner.
func (n *paperNode) Zone() string { return n.Place.Zone }

// ClockSupport implements framework.ClockShifter.
func (n *paperNode) ClockSupport() error { return nil }

// ServingEndpoints implements framework.EndpointLister.
func (n *paperNode) ServingEndpoints(c framework.Component) ([]framework.ServingEndpoint, error) {
	return []framework.ServingEndpoint{{Name: string(c), Names: []string{n.Name()}, Path: "/"}}, nil
}
