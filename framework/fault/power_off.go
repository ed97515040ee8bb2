package fault

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// PowerOff cuts the power of a node, or of all nodes of a zone or of the control plane at the
// same time.
var PowerOff = &Fault{
	Name:    "power-off",
	Summary: "cuts the power of a node, or of all nodes of a zone or of the control plane at the same time: every process on it is killed, and its peers receive neither FIN nor RST",
	Targets: []string{"node", "zone", "nodes"},
	Params:  []Param{unsyncedParam},
	Needs:   []string{"PowerSwitch", "ProcessReporter if the node has no entrance"},
	Example: "node/leader",
	Effects: does(record.EffectDown, record.EffectPower),
	Prepare: func(r Request) (Inject, error) {
		all, err := r.outages()
		if err != nil {
			return nil, err
		}
		var plugs []*plug
		for _, o := range all {
			plug, err := r.plug(o.node, o.power)
			if err != nil {
				return nil, err
			}
			plugs = append(plugs, plug)
		}
		return func(ctx context.Context) (Injection, error) { return pullPlugs(ctx, r, all, plugs) }, nil
	},
}

// outage is one node without power.
type outage struct {
	cluster  framework.Cluster
	node     framework.Node
	power    framework.PowerSwitch
	reporter framework.ProcessReporter // nil if the node has none
	entrance *framework.Entrance       // nil if the node has none
}

func pullPlugs(ctx context.Context, r Request, all []*outage, plugs []*plug) (Injection, error) {
	var shares []share
	for i, o := range all {
		shares = append(shares, share{o.node, attempt{
			what:   "power-off of node " + o.node.Name(),
			ask:    func(ctx context.Context) error { return plugs[i].off(ctx, r.TTL) },
			effect: plugs[i].told(o.dark),
			lasts: func(ctx context.Context) (bool, string) { // firmware may restore it
				on, err := o.power.Powered(ctx)
				return err != nil || !on, fmt.Sprintf("node %s was powered", o.node.Name())
			},
			undo:   o.power.PowerOn,
			healed: o.back,
		}.oneRequest()})
	}
	i, err := onNodes(ctx, r.Target, shares)
	if err == nil && i.Proof().Proven && tookNothing(plugs) {
		i.(*injection).revoke("no disk had unsynced changes to drop: nothing was being written")
	}
	return i, err
}

// outages returns all nodes whose power the fault cuts.
func (r Request) outages() ([]*outage, error) {
	nodes, err := r.nodes()
	if err != nil {
		return nil, err
	}
	var all []*outage
	for _, n := range nodes {
		o := &outage{cluster: r.Cluster, node: n}
		if o.power, err = onNode[framework.PowerSwitch](r, n); err != nil {
			return nil, err
		}
		o.reporter, _ = n.(framework.ProcessReporter)
		if e, ok := entranceOf(r.Cluster, n.Name(), framework.APIServer); ok {
			o.entrance = &e
		}
		// The switch's own report does not prove what it did.
		if o.reporter == nil && o.entrance == nil {
			return nil, r.missing("ProcessReporter", "node "+n.Name(), "")
		}
		all = append(all, o)
	}
	if checker, ok := r.Cluster.(framework.PowerChecker); ok {
		if err := checker.CheckPowerOff(framework.NodeNames(nodes)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// dark checks whether the node is off and no process on it is alive.
func (o *outage) dark(ctx context.Context) (bool, string) {
	name := o.node.Name()
	on, err := o.power.Powered(ctx)
	if err != nil {
		return false, fmt.Sprintf("it is not known whether node %s is powered: %v", name, err)
	}
	if on {
		return false, fmt.Sprintf("node %s is powered", name)
	}
	seen := fmt.Sprintf("node %s is off", name)
	counted, lives := o.processes(ctx)
	if lives != "" {
		return false, seen + ", but " + lives
	}
	if counted {
		return true, seen + " and none of its processes is left"
	}
	// No process on the node answered, which is expected, but a missing answer needs a second
	// witness.
	if o.entrance == nil {
		return false, seen + ", but it is not known whether its processes are gone"
	}
	if _, status, err := get(ctx, *o.entrance, "/readyz"); err == nil {
		return false, fmt.Sprintf("%s, but its API server answers (status %d)", seen, status)
	}
	return true, seen + " and its API server's port is silent"
}

// processes reports whether every process of the node was queried, and describes which of them
// are alive.
func (o *outage) processes(ctx context.Context) (counted bool, lives string) {
	if o.reporter == nil {
		return false, ""
	}
	var alive []string
	counted = true
	for _, c := range o.node.Components() {
		p, err := o.reporter.Process(ctx, c)
		switch {
		case err != nil:
			counted = false
		case !p.Ended():
			alive = append(alive, fmt.Sprintf("%s runs as %s", c, p.ID()))
		}
	}
	return counted, strings.Join(alive, ", ")
}

// back checks whether the node is on again and serves.
func (o *outage) back(ctx context.Context) (bool, string) {
	name := o.node.Name()
	on, err := o.power.Powered(ctx)
	if err != nil {
		return false, fmt.Sprintf("it is not known whether node %s is powered: %v", name, err)
	}
	if !on {
		return false, fmt.Sprintf("node %s is off", name)
	}
	return o.serves(fmt.Sprintf("node %s is on", name))(ctx)
}

// serves checks whether the node's etcd and API server answer; what was seen before
// comes first.
func (o *outage) serves(before string) look {
	name := o.node.Name()
	looks := []look{func(context.Context) (bool, string) { return true, before }}
	if _, ok := o.cluster.(framework.EtcdAccess); ok && slices.Contains(o.node.Components(), framework.Etcd) {
		looks = append(looks, func(ctx context.Context) (bool, string) { return etcdAnswers(ctx, o.cluster, name) })
	}
	if o.entrance != nil {
		looks = append(looks, func(ctx context.Context) (bool, string) { return ready(ctx, *o.entrance) })
	}
	return all(looks...)
}
