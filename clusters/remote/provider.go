package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// Leash is how long an agent keeps faults active without a request from the harness.
const Leash = 15 * time.Second

// pingEach is the interval of the harness's requests to every agent.
const pingEach = agent.UsedFor / 2

// Provider attaches to clusters that holdfast did not create.
type Provider struct{}

var (
	_ clusters.Provider    = Provider{}
	_ clusters.Attacher    = Provider{}
	_ clusters.Redescriber = Provider{}
	_ clusters.Permitter   = Provider{}
	_ clusters.Footprinter = Provider{}
	_ clusters.Leasher     = Provider{}
)

// Name implements clusters.Provider.
func (Provider) Name() string { return "remote" }

// Main implements clusters.Reexecuter.
func (Provider) Main() {
	system.RunRole(map[string]func([]string) error{guardRole: guardMain})
	agent.Main()
}

const cannotCreate = "it takes over existing clusters and does not create any: describe one in an inventory (holdfast inventory init) and name it with --inventory (in the Ginkgo suite: --attach)"

// Lacks implements clusters.Provider.
func (Provider) Lacks(c *clusters.Cluster) string {
	if c.Spec.Inventory != nil {
		return ""
	}
	return cannotCreate
}

// Prepare implements clusters.Provider.
func (Provider) Prepare(context.Context, clusters.Preparation, ...*clusters.Cluster) error {
	return nil
}

// Create implements clusters.Provider.
func (Provider) Create(context.Context, *clusters.Cluster, clusters.Options) (clusters.Made, error) {
	return nil, errors.New(cannotCreate)
}

// Describe implements clusters.Attacher. The name is the path of an inventory.
func (Provider) Describe(ctx context.Context, inventory string) (*clusters.Cluster, error) {
	a, err := open(inventory)
	if err != nil {
		return nil, err
	}
	return a.describe(ctx)
}

// Redescribe implements clusters.Redescriber.
func (Provider) Redescribe(ctx context.Context, c *clusters.Cluster) (*clusters.Cluster, error) {
	a, err := reach(c.Spec.Inventory)
	if err != nil {
		return nil, err
	}
	return a.describe(ctx)
}

// Leash implements clusters.Leasher. It holds for every fault: none cuts the connection between
// the harness and the agents.
func (Provider) Leash() time.Duration { return Leash }

// Footprint implements clusters.Footprinter.
func (Provider) Footprint(c *clusters.Cluster) []string {
	if !c.Spec.Inventory.Reachable() {
		return nil
	}
	var nodes, power []string
	for _, n := range c.Spec.Inventory.Spec.Nodes {
		nodes = append(nodes, n.Name+" (ssh "+n.SSH+")")
		if n.Power != nil {
			power = append(power, fmt.Sprintf("the power of %s is cut and restored on this machine, by sh: off: %s; on: %s; status: %s", n.Name, programOf(n.Power.Off), programOf(n.Power.On), programOf(n.Power.Status)))
		}
	}
	all := []string{"the node agent, as root, on " + strings.Join(nodes, ", "),
		"in etcd: keys under /holdfast/ and holdfast/, deleted at the end",
		"if that includes " + anyOf(endangering) + ": a snapshot of etcd, read through the agent and kept in the results directory (" + clusters.SnapshotDir + ", mode 0600)"}
	for _, line := range agent.Footprint() {
		all = append(all, "on each node: "+line)
	}
	return append(all, power...)
}

// Permit implements clusters.Permitter.
func (Provider) Permit(ctx context.Context, spec *clusters.Cluster, faults ...[]record.Effect) error {
	a, err := reach(spec.Spec.Inventory)
	if err != nil {
		return err
	}
	consent, err := a.admitted(ctx, len(faults) == 0)
	if err != nil {
		return err
	}
	if len(faults) > 0 && !slices.ContainsFunc(faults, consent.mayAllow) {
		return fmt.Errorf("cluster %s: %w to any fault of this run, only to %s: ask for more (see: holdfast consent --help), or observe the cluster with --profile observe",
			a.Metadata.Name, ErrNoConsent, names(consent.Levels))
	}
	cuts := func(effects []record.Effect) bool {
		return len(effects) == 0 || slices.Contains(effects, record.EffectNetwork)
	}
	if !a.Reachable() || !consent.allows(Network) || !slices.ContainsFunc(faults, cuts) {
		return nil
	}
	seen, err := a.lookAll(ctx)
	if err == nil {
		err = a.onNode(ctx, seen)
	}
	if err != nil {
		return fmt.Errorf("cluster %s: %w", a.Metadata.Name, err)
	}
	return nil
}

// permitted returns what the owner of a cluster allows. It refuses faults while the cluster is
// not safe; a harmless run injects none.
func (a *access) permitted(ctx context.Context, harmless bool) (Consent, error) {
	consent, err := a.readConsent(ctx)
	if err != nil {
		return Consent{}, fmt.Errorf("cluster %s: %w (see: holdfast consent --help)", a.Metadata.Name, err)
	}
	if consent.allows(Processes) && !harmless {
		if err := a.safe(ctx); err != nil {
			return consent, fmt.Errorf("cluster %s: %w", a.Metadata.Name, err)
		}
	}
	return consent, nil
}

// admitted is permitted before this run has agents: a fault of another run may be why the cluster
// is not safe.
func (a *access) admitted(ctx context.Context, harmless bool) (Consent, error) {
	consent, err := a.permitted(ctx, harmless)
	if err != nil && consent.allows(Processes) {
		err = errors.Join(a.unused(ctx), err)
	}
	return consent, err
}

// Attach implements clusters.Attacher. It needs the consent of the cluster's owner.
func (Provider) Attach(ctx context.Context, spec *clusters.Cluster, o clusters.Options) (clusters.Made, error) {
	a, err := reach(spec.Spec.Inventory)
	if err != nil {
		return nil, err
	}
	consent, err := a.admitted(ctx, o.Harmless)
	if err != nil {
		return nil, err
	}
	if a.Reachable() && !consent.allows(Processes) {
		o.Progress(fmt.Sprintf("the consent does not allow %q: the nodes are left alone, and the cluster is observed through its API", Processes))
	}
	observed := &Observed{access: a, spec: spec, harmless: o.Harmless}
	if observed.settings, err = clusters.Settings(spec); err != nil {
		return nil, err
	}
	if a.balanced() && a.Spec.LoadBalancer.HealthCheck == (clusters.HealthCheck{}) {
		observed.settings.Assumed = append(observed.settings.Assumed, "H")
	}
	if observed.pods, err = a.pods(ctx); err != nil {
		return nil, err
	}
	if !a.Reachable() || !consent.allows(Processes) {
		observed.explain(nil)
		observed.alone = a.onlyAPI()
		observed.find()
		return observed, nil
	}
	c := &Cluster{Observed: observed, consent: consent, stop: func() {}, program: sync.OnceValues(packProgram)}
	if c.shells, c.done, err = shells(a.Inventory); err != nil {
		return nil, err
	}
	err = c.takeOver(ctx, o.Progress)
	if err == nil && !o.Harmless && slices.ContainsFunc(endangering, consent.allows) {
		err = c.snapshot(ctx, o)
	}
	if err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("failed to take over cluster %s: %w", c.Name(), err), c.Close(undo))
	}
	return c, nil
}

// closeLimit is how long detaching from a cluster may take whose agents have faults to heal.
const closeLimit = 3 * time.Minute

// find finds the components of unreachable nodes from the mirror pods of static pods. If there
// are none, each node is assumed to run the usual components of a control-plane node; the
// location of etcd is then unknown.
func (c *Observed) find() {
	for i, n := range c.spec.Nodes() {
		c.nodes = append(c.nodes, &plain{spec: n, address: c.access.Spec.Nodes[i].Address, server: c.access.server(n.Name),
			components: c.componentsOn(c.access.Spec.Nodes[i]), alone: c.alone})
	}
	c.assumeElection()
}

// componentsOn returns the components of a node that is not reached, as far as the API shows them.
func (c *Observed) componentsOn(n clusters.InventoryNode) []framework.Component {
	all := slices.Sorted(maps.Keys(c.pods.of(n.Name)))
	if n.EtcdOnly() {
		all = []framework.Component{framework.Etcd}
	} else if !slices.Contains(all, framework.APIServer) {
		all = []framework.Component{framework.APIServer, framework.ControllerManager, framework.Scheduler}
	}
	return all
}

// assumeElection notes that etcd's election timeout is unknown if no node shows a member: hosts of
// etcd that are not reached have no static pods.
func (c *Observed) assumeElection() {
	if !slices.ContainsFunc(c.nodes, func(n framework.Node) bool {
		p, unreached := n.(*plain)
		return slices.Contains(n.Components(), framework.Etcd) && !(unreached && p.server.Config == nil)
	}) {
		c.settings.Assumed = append(c.settings.Assumed, "E")
	}
}

// assumeFused notes what is unknown of components that share a process, or whose file cannot be
// read: nothing shows their arguments, and leases do not contain renew deadlines and retry periods.
// The version of components that share a process is that of the API server.
func (c *Observed) assumeFused(seen map[string]*found) {
	for _, n := range c.spec.Nodes() {
		for _, component := range elected {
			f := seen[n.Name]
			if f.node.EtcdOnly() {
				continue
			}
			if f.shows(component) {
				continue
			}
			symbols := []string{"R", "P"}
			if f.fused(component) {
				c.released[n.Name][component] = c.reported(n.Index)
				symbols = append(symbols, "N", "G")
			}
			for _, symbol := range symbols {
				c.assume(symbol)
			}
		}
	}
}

// takeOver installs agents on the nodes.
func (c *Cluster) takeOver(ctx context.Context, progress func(string)) error {
	if err := c.healOld(ctx); err != nil {
		return err
	}
	seen, err := c.access.find(ctx, c.shells, c.harmless)
	if err != nil {
		return err
	}
	sights := map[string]*sight{}
	for name, f := range seen {
		sights[name] = f.sight
	}
	if c.onNode = c.access.onNode(ctx, sights); c.onNode != nil && !errors.Is(c.onNode, ErrOnNode) {
		return c.onNode
	}
	if c.released, err = c.access.versions(ctx, c.shells, seen); err != nil {
		return err
	}
	harness := c.add(seen, progress)
	c.assumeElection()
	c.explain(seen)
	c.assumeFused(seen)
	c.broken.groups = groupsOf(c.nodesWith(framework.APIServer), c.nodesWith(framework.Etcd))
	parties, err := c.parties(ctx, harness)
	if err != nil {
		return err
	}
	c.Network = agent.NewNetwork(c.Name(), parties)
	// An agent of an older version does not say whose requests it has received: this run's look like another's.
	if err := c.each(func(n *node) error { return n.shell.idle(ctx) }); err != nil {
		return err
	}
	progress("installing agents on the nodes")
	if err := c.putAgents(ctx, func(ctx context.Context, n *node) error { return errors.Join(n.putAgent(ctx), n.readCA(ctx)) }); err != nil {
		return err
	}
	if err := c.Network.Meet(ctx); err != nil || c.harmless {
		return err
	}
	uid, err := c.access.clusterUID(ctx)
	if err != nil {
		return err
	}
	members := c.nodesWith(framework.Etcd)
	return errors.Join(sameCluster(ctx, c, members, uid), onlyMembers(ctx, c, members))
}

// putAgents installs the agents, and pings each from then on: another one may take long, and an agent
// that receives no request looks unused, and is removed.
func (c *Cluster) putAgents(ctx context.Context, put func(context.Context, *node) error) error {
	var pinging context.Context
	pinging, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	g, gctx := errgroup.WithContext(ctx)
	for _, n := range c.reached {
		g.Go(func() error {
			if err := put(gctx, n); err != nil {
				return err
			}
			c.pings.Go(func() { n.keepUsed(pinging) })
			return nil
		})
	}
	return g.Wait()
}

// keepUsed sends the agent requests until ctx ends.
func (n *node) keepUsed(ctx context.Context) {
	for ctx.Err() == nil {
		_ = n.Ping(ctx) // others handle the result
		client.Pause(ctx, pingEach)
	}
}

// add adds the nodes as they were found, and returns the harness's addresses as they see them. One that
// is lost has the components that the API shows, and reports nothing about them.
func (c *Cluster) add(seen map[string]*found, progress func(string)) (harness []netip.Prefix) {
	for i, spec := range c.spec.Nodes() {
		f := seen[spec.Name]
		n := &node{plain: &plain{spec: spec, address: c.access.Spec.Nodes[i].Address, server: c.access.server(spec.Name), components: f.components()}, cluster: c, shell: c.shells[spec.Name], found: f}
		n.Client = agent.NewClient(spec.Name, n.dialAgent)
		if p := powerOf(c.access.Spec.Nodes[i]); p != nil { // its power can be cut
			n.outlet = &outlet{power: p}
			c.Observed.nodes = append(c.Observed.nodes, powered{n})
		} else {
			c.Observed.nodes = append(c.Observed.nodes, n)
		}
		if !f.known() {
			progress(fmt.Sprintf("the API server on %s does not answer, and no agent is installed on the node: %v", spec.Name, f.lost))
			n.components, c.lost = c.componentsOn(f.node), append(c.lost, n)
			continue
		}
		c.reached = append(c.reached, n)
		if a := f.sight.client; a.IsValid() && !slices.ContainsFunc(harness, func(p netip.Prefix) bool { return p.Addr() == a }) {
			harness = append(harness, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return harness
}
