package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// rolesLimit is how long the victim is given to take over the roles that it is hit in.
const rolesLimit = 60 * time.Second

// victim returns the name of the experiment's victim; empty if it has none.
func (r *run) victim() string {
	if n := r.experiment.Victim; n > 0 && n <= len(r.cluster.Nodes()) {
		return r.cluster.Nodes()[n-1].Name()
	}
	return ""
}

// resolve finds what a target of the scenario means now.
func (r *run) resolve(ctx context.Context, target string) (fault.Target, error) {
	return fault.ResolveFrom(ctx, r.cluster, r.actual(target), r.victim())
}

// assignRoles gives the victim the roles that the timeline's faults look for, and takes those
// away from it that would spare it. That a role cannot be moved is reported and no error: the
// record says which node was hit.
func (r *run) assignRoles(ctx context.Context) {
	victim := r.victim()
	if victim == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rolesLimit)
	defer cancel()
	for role, has := range r.roles() {
		if err := r.assign(ctx, role, victim, has); err != nil {
			r.say("%s is hit wherever it is, since the role could not be moved: %v", role, err)
		}
	}
}

// roles returns the targets, such as etcd/leader, whose node is to be the victim (true) or
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
			continue // Validate would have said it
		}
		// A victim that is hit in both ways is hit as the leader, or the active instance.
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

// assign moves a role until the victim has it or, if it is to be spared, has not.
func (r *run) assign(ctx context.Context, role, victim string, has bool) error {
	for {
		t, err := fault.Resolve(ctx, r.cluster, role)
		if err != nil || (t.Node == victim) == has {
			return err
		}
		if strings.HasPrefix(role, "etcd/") {
			err = r.moveLeader(ctx, t, victim, has)
		} else {
			err = r.moveLease(ctx, t, strings.TrimSuffix(role, "/active"), victim, has)
		}
		if err != nil && !client.Pause(ctx, conditionPause) {
			return err
		}
	}
}

// moveLeader lets the victim lead etcd, or another member.
func (r *run) moveLeader(ctx context.Context, leader fault.Target, victim string, has bool) error {
	var to map[string]string
	if has {
		to = map[string]string{"to": victim}
	}
	return r.doAndUndo(ctx, fault.MoveLeader, leader, to)
}

// moveLease lets the victim hold the lease of a component, or another instance: it deletes the
// lease while those that are not to have it are down. The instance that held it is restarted by
// that; left alone it would exit when its renew deadline is over, in the middle of the
// experiment.
func (r *run) moveLease(ctx context.Context, active fault.Target, component, victim string, has bool) (err error) {
	var down []fault.Injection
	defer func() {
		healing, cancel := context.WithTimeout(context.WithoutCancel(ctx), healLimit)
		defer cancel()
		for _, in := range down {
			_, healed := in.Heal(healing)
			err = errors.Join(err, healed)
		}
	}()
	for _, n := range r.cluster.Nodes() {
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
	_, err = in.Heal(ctx)
	return err
}
