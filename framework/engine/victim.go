package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// rolesLimit is how long the victim may take to get the roles in which it is hit.
const rolesLimit = 60 * time.Second

// victim returns the name of the experiment's victim; empty if it has none.
func (r *run) victim() string {
	if n := r.experiment.Victim; n > 0 && n <= len(r.cluster.Nodes()) {
		return r.cluster.Nodes()[n-1].Name()
	}
	return ""
}

func (r *run) resolve(ctx context.Context, target string) (fault.Target, error) {
	return fault.ResolveFrom(ctx, r.cluster, r.actual(target), r.victim())
}

// assignRoles moves the roles that the timeline's faults target to the victim, and moves roles
// away from it that would spare it. A role that cannot be moved is reported but is not an error:
// the record shows which node was hit. The error is that what was broken for it is not healed.
func (r *run) assignRoles(ctx context.Context) error {
	victim := r.victim()
	if victim == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, rolesLimit)
	defer cancel()
	roles := r.roles()
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		has := roles[role]
		if has && !r.mayHave(victim, role) {
			r.say("%s is hit on its current node, since %s cannot have that role", role, victim)
			continue
		}
		err := r.assign(ctx, role, victim, has)
		if errors.Is(err, errUnhealed) {
			return err
		}
		if err != nil {
			r.say("%s is hit on its current node, since the role could not be moved: %v", role, err)
		}
	}
	return nil
}

// errUnhealed is why an experiment cannot begin: what moved a role is not healed.
var errUnhealed = errors.New("the fault that moved a role may still be active")

// mayHave reports whether a node runs the component of a role, such as etcd/leader.
func (r *run) mayHave(node, role string) bool {
	named, err := fault.Names(role)
	return err == nil && slices.ContainsFunc(framework.NodesWith(r.cluster, named.Component), func(n framework.Node) bool { return n.Name() == node })
}

// roles returns the targets, such as etcd/leader, whose node should be the victim (true) or
// another one (false).
func (r *run) roles() map[string]bool {
	roles := map[string]bool{}
	spare := func(target string) {
		if _, ok := roles[target]; !ok {
			roles[target] = false
		}
	}
	for _, s := range r.experiment.Timeline {
		if s.Inject == nil {
			continue
		}
		named, err := fault.Names(s.Inject.Target)
		if err != nil {
			continue // Validate would have reported it
		}
		// A victim that is hit in both roles is hit as the leader, or the active instance.
		switch target := named.Of + "/active"; named.Role {
		case "leader":
			roles["etcd/leader"] = true
		case "follower":
			spare("etcd/leader")
		case "active":
			roles[target] = true
		case "standby":
			spare(target)
		}
	}
	return roles
}

// assign moves a role until the victim has it or, to be spared, does not have it.
func (r *run) assign(ctx context.Context, role, victim string, has bool) error {
	for {
		t, err := fault.Resolve(ctx, r.cluster, role)
		if err != nil || (t.Node == victim) == has {
			return err
		}
		if strings.HasPrefix(role, "etcd/") {
			var to map[string]string // nil: any other member
			if has {
				to = map[string]string{"to": victim}
			}
			err = r.doAndUndo(ctx, fault.MoveLeader, t, to)
		} else {
			err = r.moveLease(ctx, t, strings.TrimSuffix(role, "/active"), victim, has)
		}
		final := missingAbility(err) != nil || errors.Is(err, errUnhealed) || errors.Is(err, errGrouped)
		if err != nil && (final || !client.Pause(ctx, conditionPause)) {
			return err
		}
	}
}

// moveLease makes the victim, or another instance, the holder of a component's lease: it deletes
// the lease while the instances that should not have it are down. This restarts the previous
// holder, which would otherwise exit when its renew deadline passes, in the middle of the
// experiment.
func (r *run) moveLease(ctx context.Context, active fault.Target, component, victim string, has bool) (err error) {
	if err := fault.LeaseDelete.Check(r.cluster, active, fault.Params{TTL: rolesLimit}); err != nil {
		return err
	}
	var down []fault.Injection
	defer func() {
		healing, cancel := context.WithTimeout(context.WithoutCancel(ctx), healLimit)
		defer cancel()
		for _, in := range down {
			if problem := heal(healing, in); problem != nil {
				err = errors.Join(err, problem)
			}
		}
	}()
	for _, n := range framework.NodesWith(r.cluster, active.Component) {
		if (n.Name() == victim) == has {
			continue
		}
		t, err := fault.Resolve(ctx, r.cluster, component+"/"+n.Name())
		if err != nil {
			return err
		}
		if len(groupOf(r.cluster, t)) > 0 {
			return errGrouped
		}
		in, err := fault.Kill.Inject(ctx, r.cluster, t, fault.Params{TTL: rolesLimit + healLimit})
		if err != nil {
			return err
		}
		if down = append(down, in); !in.Proof().Proven {
			return errors.New(in.Proof().What)
		}
	}
	return r.doAndUndo(ctx, fault.LeaseDelete, active, nil)
}

// doAndUndo injects a fault and heals it, before anything is recorded.
func (r *run) doAndUndo(ctx context.Context, f *fault.Fault, t fault.Target, values map[string]string) error {
	in, err := f.Inject(ctx, r.cluster, t, fault.Params{TTL: rolesLimit, Values: values})
	if err != nil {
		return err
	}
	if p := in.Proof(); !p.Proven {
		return errors.New(p.What)
	}
	return heal(ctx, in)
}

// heal heals what was broken to move a role. Its errors are errUnhealed.
func heal(ctx context.Context, in fault.Injection) error {
	proof, err := in.Heal(ctx)
	if err == nil && !proof.Proven {
		err = errors.New(proof.What)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUnhealed, err)
	}
	return nil
}
