package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/observe"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// The actions that change the set of nodes.
const (
	actionAddNode     = "add-node"
	actionReplaceNode = "replace-node"
	actionRemoveNode  = "remove-node"
	actionLoseNode    = "lose-node"
)

// The actions that change nodes in place.
const (
	actionUpgrade     = "upgrade"
	actionUpgradeEtcd = "upgrade-etcd"
	actionReconfigure = "reconfigure"
	actionRotate      = "rotate-certificates"
	actionRotateCA    = "rotate-ca"
)

const (
	// nodeLimit is how long adding or removing a node may take.
	nodeLimit = 3 * time.Minute
	// inPlaceLimit is how long changing a node in place may take: kubeadm takes three minutes for
	// an upgrade, and waits up to five for each component.
	inPlaceLimit = 10 * time.Minute
)

// changeLimit returns how long a change of nodes may take.
func changeLimit(action string) time.Duration {
	if changesInPlace(action) {
		return inPlaceLimit
	}
	return nodeLimit
}

// ChangesNodes reports whether an action changes nodes or the set of nodes.
func ChangesNodes(action string) bool {
	return adds(action) || action == actionRemoveNode || action == actionLoseNode || changesInPlace(action)
}

// LosesNodes reports whether an action is the loss of nodes for good.
func LosesNodes(action string) bool { return action == actionLoseNode }

func adds(action string) bool { return action == actionAddNode || action == actionReplaceNode }

func changesInPlace(action string) bool {
	return action == actionUpgrade || action == actionUpgradeEtcd || action == actionReconfigure || action == actionRotate || action == actionRotateCA
}

// errCutShort interrupts a node change after one of its steps.
var errCutShort = errors.New("interrupted on purpose")

// changeNodes makes a node change and records the result. If it fails, the timeline ends: the
// remaining steps are about a cluster that does not exist.
func (r *run) changeNodes(ctx context.Context, a *Action) error {
	limited, cancel := context.WithTimeout(ctx, changeLimit(a.Name))
	defer cancel()
	r.disturb(limited)
	if a.Name == actionLoseNode {
		return r.loseNodes(ctx, limited, a)
	}
	change := record.NodeChange{Name: a.ID, Called: r.w.Now()}
	err := r.change(framework.WithSteps(limited, r.stepOf(a.ID, a.Interrupt)), a, &change)
	if a.Interrupt > 0 && changesInPlace(a.Name) {
		err = r.complete(limited, a, &change, err)
	} else if errors.Is(err, errCutShort) && !errors.Is(err, framework.ErrNotUndone) {
		change.Phase, change.Error, change.Effect = record.NodeUndone, err.Error(), r.w.Now()
		r.say("%s after its step %d", errCutShort, a.Interrupt)
		err = nil
	}
	if err := r.changed(ctx, a, &change, err); err != nil || a.Interrupt == 0 || change.Phase != record.NodeAdded {
		return err
	}
	// The change has fewer steps here. The remaining steps are about the original nodes.
	r.say("%s had no step %d; its node is removed again", a.Name, a.Interrupt)
	return r.changeNodes(ctx, &Action{ID: a.ID, Name: actionRemoveNode})
}

// complete finishes a change in place that was interrupted on purpose, or takes it back. err is
// that of the first attempt, which may have had too few steps to be interrupted.
func (r *run) complete(ctx context.Context, a *Action, change *record.NodeChange, err error) error {
	cut := errors.Is(err, errCutShort)
	switch {
	case err != nil && !cut:
		return err
	case cut:
		change.Interrupted = a.Interrupt
		r.say("%s after its step %d", errCutShort, a.Interrupt)
	default:
		r.say("%s had no step %d", a.Name, a.Interrupt)
		if !a.Undo {
			return nil
		}
	}
	rest := *a
	rest.Node = change.Node.Name // a role may have moved
	if a.Undo {
		rest.To = change.From
	}
	from := change.From
	err = r.change(framework.WithSteps(ctx, r.stepOf(a.ID, 0)), &rest, change)
	change.From = from
	return err
}

func (r *run) changed(ctx context.Context, a *Action, change *record.NodeChange, err error) error {
	if err != nil {
		change.Phase, change.Error = record.NodeFailed, err.Error()
		if missing := missingAbility(err); missing != nil {
			change.Missing = missing.Ability
		}
		r.say("%s failed: %v", a.Name, err)
	} else if change.Phase != record.NodeUndone {
		r.say("%s (%s) is %s", change.Node.Name, change.Node.Address, change.Phase)
	}
	if problem := r.w.Append(record.KindNode, *change); problem != nil {
		return problem
	}
	if !changesInPlace(a.Name) {
		// What etcd itself says, and then the load balancer.
		if problem := observe.ListEtcd(ctx, r.cluster, r.w); problem != nil {
			return problem
		}
		r.observers.ListBackends(ctx)
	}
	if err != nil {
		return errUnproven
	}
	if change.Phase == record.NodeAdded {
		if err := r.observers.Join(r.outer, r.node(change.Node.Name)); err != nil {
			return err
		}
		if r.traffic != nil {
			if err := r.traffic.Join(change.Node.Name); err != nil {
				return err
			}
		}
	}
	r.settle(ctx, time.Now(), baseRecovery(r.cluster.Settings()))
	return nil
}

// stepOf records each step of a node change or of a fault, and interrupts it after step number
// interrupt, counted from 1; 0 for never. Steps may be made on several nodes at the same time.
func (r *run) stepOf(change string, interrupt int) func(framework.Step) error {
	var mu sync.Mutex
	n := 0
	return func(s framework.Step) error {
		mu.Lock()
		defer mu.Unlock()
		r.say("%s on %s: %s", s.Name, cmp.Or(s.Node, "the cluster"), s.Proof)
		err := r.w.Append(record.KindStep, record.Step{Change: change, Node: s.Node, Name: s.Name,
			Component: string(s.Component), Version: s.Version, Proof: s.Proof,
			Began: r.w.Since(s.Began), Done: r.w.Since(s.Done)})
		if n++; err == nil && n == interrupt {
			return errCutShort
		}
		return err
	}
}

// lost is a node that lost its power permanently.
type lost struct {
	name   string
	power  framework.PowerSwitch
	change record.NodeChange
}

// loseNodes cuts the power of nodes permanently, of all at the same time, and then removes one
// after the other.
func (r *run) loseNodes(ctx, limited context.Context, a *Action) error {
	all, err := r.darken(limited, a)
	if err != nil {
		return r.changed(ctx, a, &record.NodeChange{Name: a.ID, Called: r.w.Now()}, errors.Join(err, lighten(ctx, all)))
	}
	// That they are gone is known to no member.
	if err := observe.ListEtcd(limited, r.cluster, r.w); err != nil {
		return errors.Join(err, lighten(ctx, all))
	}
	for i := range all {
		r.disturb(limited)
		err := r.remove(framework.WithSteps(limited, r.stepOf(a.ID, 0)), a.ID, all[i].name)
		if err != nil {
			err = errors.Join(err, lighten(ctx, all[i:])) // as they were
		}
		if err := r.changed(ctx, a, &all[i].change, err); err != nil {
			return err
		}
	}
	return nil
}

// darken cuts the power of all nodes that an action names.
func (r *run) darken(ctx context.Context, a *Action) (all []lost, err error) {
	for target := range strings.SplitSeq(a.Node, ",") {
		n, err := r.leaving(ctx, strings.TrimSpace(target))
		if err != nil {
			return nil, err
		}
		power, ok := n.(framework.PowerSwitch)
		if !ok {
			return nil, fault.Lacking(n, "PowerSwitch", "node "+n.Name(), "action "+a.Name)
		}
		if slices.ContainsFunc(all, func(other lost) bool { return other.name == n.Name() }) {
			return nil, fmt.Errorf("%q names %s twice", a.Node, n.Name())
		}
		all = append(all, lost{n.Name(), power, record.NodeChange{Name: a.ID, Phase: record.NodeLost, Node: nodeEntry(n), Called: r.w.Now()}})
	}
	for i := range all {
		r.leave(all[i].name)
		// Longer than the removal can take.
		if err := all[i].power.PowerOff(ctx, 2*nodeLimit); err != nil {
			return all, err
		}
		all[i].change.Effect = r.w.Now()
	}
	return all, nil
}

// lighten gives nodes their power back.
func lighten(ctx context.Context, all []lost) (err error) {
	for _, n := range all {
		err = errors.Join(err, n.power.PowerOn(context.WithoutCancel(ctx)))
	}
	return err
}

// leave stops all requests to a node.
func (r *run) leave(node string) {
	r.observers.Leave(node)
	if r.traffic != nil {
		r.traffic.Leave(node)
	}
}

// remove removes a node permanently, by a change that the scenario calls id.
func (r *run) remove(ctx context.Context, id, node string) error {
	if err := r.cluster.(framework.Scaler).RemoveNode(ctx, node); err != nil {
		return err
	}
	r.added = slices.DeleteFunc(r.added, func(known namedNode) bool { return known.node == node })
	r.removed = append(r.removed, namedNode{id, node})
	return nil
}

func (r *run) change(ctx context.Context, a *Action, change *record.NodeChange) error {
	// foresee has checked the timeline, but not the removal that undoes an interrupted change.
	if missing := r.lacks(a); missing != nil {
		return missing
	}
	if changesInPlace(a.Name) {
		return r.changeInPlace(ctx, a, change)
	}
	if adds(a.Name) {
		change.Phase = record.NodeAdded
		n, err := r.add(ctx, a)
		if err != nil {
			return err
		}
		change.Node, change.Effect = nodeEntry(n), r.w.Now()
		r.added = append(r.added, namedNode{a.ID, n.Name()})
		return nil
	}
	n, err := r.leaving(ctx, a.Node)
	if err != nil {
		return err
	}
	change.Phase, change.Node = record.NodeRemoved, nodeEntry(n)
	r.leave(n.Name())
	err = r.remove(ctx, a.ID, n.Name())
	change.Effect = r.w.Now()
	return err
}

// add adds a node, or replaces one that was removed.
func (r *run) add(ctx context.Context, a *Action) (framework.Node, error) {
	if a.Name == actionAddNode {
		return r.cluster.(framework.Scaler).AddNode(ctx)
	}
	i := slices.IndexFunc(r.removed, func(known namedNode) bool { return known.id == a.Node })
	if i < 0 {
		return nil, fmt.Errorf("no node is left to replace: every node that action %q removed was already replaced", a.Node)
	}
	n, err := r.cluster.(framework.NodeReplacer).ReplaceNode(ctx, r.removed[i].node)
	if err == nil {
		r.removed = slices.Delete(r.removed, i, i+1)
	}
	return n, err
}

func (r *run) changeInPlace(ctx context.Context, a *Action, change *record.NodeChange) error {
	change.Phase, change.Action = record.NodeChanged, a.Name
	n, err := r.leaving(ctx, a.Node)
	if err != nil {
		return err
	}
	change.Node = nodeEntry(n)
	switch a.Name {
	case actionReconfigure:
		change.Restarts = sortedKeys(a.Args)
		args := map[framework.Component]map[string]string{}
		for component, flags := range a.Args {
			args[framework.Component(component)] = flags
		}
		err = r.cluster.(framework.Reconfigurer).Reconfigure(ctx, n.Name(), args)
	case actionRotate:
		err = r.cluster.(framework.CertificateRotator).RotateCertificates(ctx, n.Name())
	case actionRotateCA:
		c := r.cluster.(framework.CARotator)
		change.From, change.To = c.TrustStages()[n.Name()][0].String(), a.To
		err = c.RotateCA(ctx, n.Name(), framework.TrustStage(slices.Index(framework.TrustStageNames, a.To)))
	case actionUpgradeEtcd:
		change.From, change.To = r.cluster.Versions()[n.Name()][framework.Etcd], a.To
		err = r.cluster.(framework.EtcdUpgrader).UpgradeEtcd(ctx, n.Name(), a.To)
	default:
		change.From, change.To = r.cluster.Versions()[n.Name()][framework.APIServer], a.To
		err = r.cluster.(framework.Upgrader).UpgradeNode(ctx, n.Name(), a.To)
	}
	change.Effect = r.w.Now()
	return err
}

// namedNode is a node that this run added or removed.
type namedNode struct {
	id   string // what the scenario calls it, or its removal
	node string
}

// leaving returns the node that an action is about: the last one added if it names none.
func (r *run) leaving(ctx context.Context, target string) (framework.Node, error) {
	if target == "" {
		if len(r.added) == 0 {
			return nil, errors.New("no added node is left in the cluster; name one with `node`")
		}
		return r.node(r.added[len(r.added)-1].node), nil
	}
	t, err := r.resolve(ctx, "node/"+strings.TrimPrefix(target, "node/"))
	if err != nil {
		return nil, err
	}
	return r.node(t.Node), nil
}

// actual replaces the name that the scenario gave a node by the node's own.
func (r *run) actual(target string) string {
	kind, name, ok := strings.Cut(target, "/")
	for _, a := range r.added {
		if ok && a.id == name {
			return kind + "/" + a.node
		}
	}
	return target
}

func (r *run) node(name string) framework.Node {
	nodes := r.cluster.Nodes()
	return nodes[slices.IndexFunc(nodes, func(n framework.Node) bool { return n.Name() == name })]
}

func nodeEntry(n framework.Node) record.Node {
	entry := record.Node{Name: n.Name(), Address: n.Address().String()}
	if z, ok := n.(framework.Zoner); ok {
		entry.Zone = z.Zone()
	}
	if d, ok := n.(framework.Distributed); ok {
		found := record.Distribution(d.Distribution())
		entry.Distribution = &found
	}
	for _, c := range n.Components() {
		entry.Components = append(entry.Components, string(c))
	}
	return entry
}
