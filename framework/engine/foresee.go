package engine

import (
	"context"
	"errors"

	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// missingAbility returns the missing ability that an error reports; nil if it reports something
// else.
func missingAbility(err error) *fault.MissingAbility {
	missing, _ := errors.AsType[*fault.MissingAbility](err)
	return missing
}

// foresee checks, before anything is injected, whether the cluster lacks an ability for one of
// the injections from step first on: a cluster is not broken for an experiment that cannot
// finish. It records each impossible injection, and reports whether there is one. Targets that do
// not exist yet, and anything else that may work later, are checked when their time comes.
func (r *run) foresee(ctx context.Context, first int) (lacks bool, err error) {
	r.foreseen = true
	for i, s := range r.experiment.Timeline[first:] {
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
		r.say("nothing is injected, since %s cannot be: %v", in.ID, missing)
		if err := r.w.Append(record.KindFault, entry); err != nil {
			return true, err
		}
	}
	return lacks, nil
}
