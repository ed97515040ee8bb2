package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// missingAbility returns the missing ability that an error reports; nil if it reports something
// else.
func missingAbility(err error) *fault.MissingAbility {
	missing, _ := errors.AsType[*fault.MissingAbility](err)
	return missing
}

// foresee checks, before anything is injected and before nodes are changed, whether the cluster
// lacks an ability for one of the injections or changes from step first on: a cluster is not
// broken for an experiment that cannot finish. It records each that is impossible, and reports
// whether there is one. Targets that do not exist yet, and anything else that may work later, are
// checked when their time comes.
func (r *run) foresee(ctx context.Context, first int) (lacks bool, err error) {
	r.foreseen = true
	ctx, cancel := context.WithTimeout(ctx, injectLimit)
	defer cancel()
	for i, s := range r.experiment.Timeline[first:] {
		if a := s.Action; a != nil && ChangesNodes(a.Name) {
			impossible, err := r.foreseeChange(a)
			if lacks = lacks || impossible; err != nil {
				return lacks, err
			}
		}
		in := s.Inject
		if in == nil {
			continue
		}
		ttl, err := r.experiment.TTL(first+i, r.cluster.Settings())
		if err != nil {
			return false, err
		}
		target, err := r.resolve(ctx, in.Target)
		if err == nil {
			var f *fault.Fault
			if f, err = fault.Find(in.Fault, r.options.Faults...); err != nil {
				return false, err // Validate would have reported it
			}
			err = f.Possible(ctx, r.cluster, target, fault.Params{TTL: ttl, Values: in.Params})
		}
		missing := missingAbility(err)
		if missing == nil {
			continue
		}
		lacks = true
		entry := record.Fault{ID: in.ID, Name: in.Fault, Target: in.Target, Params: in.Params, Phase: record.FaultFailed,
			Called: r.w.Now(), Error: missing.Error(), Missing: missing.Ability}
		aim(&entry, target)
		r.say("no fault is injected, since %s cannot be injected: %v", in.ID, missing)
		if err := r.w.Append(record.KindFault, entry); err != nil {
			return true, err
		}
	}
	return lacks, nil
}

// foreseeChange records a change of nodes if the cluster lacks an ability for it, and reports
// whether it does.
func (r *run) foreseeChange(a *Action) (lacks bool, err error) {
	missing := r.lacks(a)
	if missing == nil {
		return false, nil
	}
	entry := record.NodeChange{Name: a.ID, Phase: record.NodeFailed, Called: r.w.Now(), Error: missing.Error(), Missing: missing.Ability}
	if changesInPlace(a.Name) {
		entry.Action = a.Name
	}
	r.say("no node is changed, since %s cannot be made: %v", a.Name, missing)
	return true, r.w.Append(record.KindNode, entry)
}

// lacks returns which ability the cluster lacks for a change of nodes; nil if it has all.
func (r *run) lacks(a *Action) *fault.MissingAbility {
	if needs := actions()[a.Name].needs; needs != nil {
		if missing := missingAbility(needs(r.cluster, a.Name)); missing != nil {
			return missing
		}
	}
	nodes := r.cluster.Nodes()
	if a.Name == actionLoseNode && len(nodes) > 0 && !slices.ContainsFunc(nodes, hasPowerSwitch) {
		return fault.Lacking(nodes[0], "PowerSwitch", "every node of cluster "+r.cluster.Name(), "action "+a.Name)
	}
	return nil
}

func hasPowerSwitch(n framework.Node) bool {
	_, has := n.(framework.PowerSwitch)
	return has
}
