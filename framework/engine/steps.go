package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/observe"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// activeFault is an injection that this run made.
type activeFault struct {
	step   *Inject
	fault  *fault.Fault
	inj    fault.Injection
	proven bool // when it was injected
	healed bool
	ttl    time.Duration
	group  []framework.Component // that are one process with its target
}

// nodes are the nodes that it hit; empty if it hit another host.
func (i *activeFault) nodes() []string { return i.inj.Target().AllNodes() }

// errUnproven ends a timeline whose fault did not take effect: continuing would only take time.
// The record reports why.
var errUnproven = errors.New("the fault has no proof of effect")

// timeline runs the steps. Its error means that the record is incomplete.
func (r *run) timeline(ctx context.Context) error {
	for i, s := range r.experiment.Timeline {
		if err := interrupted(ctx); err != nil {
			return err
		}
		if err := r.phase("%s", s); err != nil {
			return err
		}
		if err := r.options.Before(ctx, i, r.w); err != nil {
			return err
		}
		err := r.step(ctx, i, s)
		if errors.Is(err, errUnproven) {
			return interrupted(ctx)
		}
		if err != nil {
			return err
		}
	}
	return interrupted(ctx)
}

func (r *run) step(ctx context.Context, i int, s Step) error {
	if r.damaged != "" && (s.Inject != nil || s.Action != nil && ChangesNodes(s.Action.Name)) {
		return cmp.Or(r.phase("nothing more is broken: %s", r.damaged), errUnproven)
	}
	switch {
	case s.Inject != nil:
		return r.inject(ctx, i, s.Inject)
	case s.Heal != "":
		return r.healStep(ctx, s.heals())
	case s.Wait != "":
		d, err := duration(s.Wait, r.cluster.Settings())
		if err != nil {
			return err
		}
		r.recovery.stale = true
		client.Pause(ctx, d)
		return nil
	case s.Until != nil:
		r.recovery.stale = true
		return r.until(ctx, s.Until)
	case s.Action != nil:
		r.recovery.stale = true
		if ChangesNodes(s.Action.Name) {
			if !r.foreseen {
				if lacks, err := r.foresee(ctx, i); lacks || err != nil {
					return cmp.Or(err, errUnproven)
				}
			}
			return r.changeNodes(ctx, s.Action)
		}
		r.act(ctx, s.Action)
	}
	return nil
}

func (r *run) inject(ctx context.Context, i int, in *Inject) error {
	limited, cancel := context.WithTimeout(ctx, in.limit())
	defer cancel()
	if !r.foreseen {
		if lacks, err := r.foresee(limited, i); lacks || err != nil {
			return cmp.Or(err, errUnproven)
		}
	}
	r.disturb(limited)
	entry := record.Fault{ID: in.ID, Name: in.Fault, Target: in.Target, Params: in.Params, Phase: record.FaultInjected, Called: r.w.Now()}
	ttl, err := r.experiment.TTL(i, r.cluster.Settings())
	if err != nil {
		return err
	}
	f, err := fault.Find(in.Fault, r.options.Faults...)
	if err != nil {
		return err // Validate would have reported it
	}
	var injection fault.Injection
	entry.Untouched = true
	target, err := r.resolve(limited, in.Target)
	if err == nil {
		aim(&entry, target)
		p := fault.Params{TTL: ttl, Values: in.Params}
		if injection = r.alike(in, target); injection != nil {
			// The process is hit.
		} else if err = f.Check(r.cluster, target, p); err == nil {
			injection, err = f.Inject(framework.WithSteps(limited, r.stepOf(in.ID, 0)), r.cluster, target, p)
			_, entry.Untouched = errors.AsType[framework.Untouched](err)
		}
	}
	if err != nil {
		entry.Phase, entry.Error = record.FaultFailed, err.Error()
		if missing := missingAbility(err); missing != nil {
			entry.Missing = missing.Ability
		}
		r.say("injecting %s failed: %v", in.ID, err)
		// What was touched has been undone, or judges take into account that it may not have been;
		// a component may still be starting.
		now := time.Now()
		r.recovery = recovery{from: now, until: now.Add(record.ComponentStart + baseRecovery(r.cluster.Settings()))}
		if err := r.w.Append(record.KindFault, entry); err != nil {
			return err
		}
		return errUnproven
	}
	entry.Untouched = false
	entry.Params = fault.Used(injection, in.Params)
	one := group(r.cluster, f, target, entry.Params)
	r.injections = append(r.injections, &activeFault{step: in, fault: f, inj: injection, proven: injection.Proof().Proven, ttl: ttl, group: one})
	r.recovery = recovery{}
	for _, c := range one {
		entry.Group = append(entry.Group, string(c))
	}
	entry.Effects = f.EffectsWith(entry.Params)
	r.enter(&entry, injection.Proof())
	r.say("%s hit %s: %s", in.ID, target, entry.Proof)
	if err := r.w.Append(record.KindFault, entry); err != nil {
		return err
	}
	if !entry.Proven {
		return errUnproven
	}
	r.burst()
	return nil
}

// burst has the clients of all API servers contend for one register, in the background: histories
// are most likely to go wrong at the start and at the end of a fault.
func (r *run) burst() {
	if r.traffic != nil {
		r.traffic.Burst()
	}
}

// enter copies a proof into an entry.
func (r *run) enter(entry *record.Fault, p fault.Proof) {
	entry.Proven, entry.Proof, entry.Killed = p.Proven, p.What, p.Killed
	if !p.Called.IsZero() {
		entry.Called = r.w.Since(p.Called)
	}
	if !p.Effect.IsZero() {
		entry.Effect = r.w.Since(p.Effect)
	}
}

// aim copies a target into an entry.
func aim(entry *record.Fault, t fault.Target) {
	entry.Node, entry.Nodes, entry.Host, entry.Component = t.Node, t.Nodes, t.Host, string(t.Component)
}

// healStep heals injections and, if none is left, measures the recovery.
func (r *run) healStep(ctx context.Context, ids []string) error {
	r.burst()
	err := framework.Each(ids, func(id string) error {
		i := slices.IndexFunc(r.injections, func(i *activeFault) bool { return i.step.ID == id })
		if i < 0 {
			return nil // it was never injected, which the record shows
		}
		return r.heal(ctx, r.injections[i])
	})
	if err != nil {
		return err
	}
	if len(r.unhealed()) > 0 {
		return nil
	}
	return r.recover(ctx)
}

// heal heals one injection and records the result. It continues after ctx has ended: nothing must
// stay broken.
func (r *run) heal(ctx context.Context, i *activeFault) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healLimit)
	defer cancel()
	t := i.inj.Target()
	entry := record.Fault{
		ID: i.step.ID, Name: i.step.Fault, Target: i.step.Target,
		Params: fault.Used(i.inj, i.step.Params), Phase: record.FaultHealed, Called: r.w.Now(),
	}
	aim(&entry, t)
	called := time.Now()
	proof, err := i.inj.Heal(ctx)
	r.mu.Lock() // others may be healed at the same time
	defer r.mu.Unlock()
	i.healed = err == nil // or it is tried again at the end
	if !proof.Called.IsZero() {
		called = proof.Called
	}
	r.enter(&entry, proof)
	if p := i.inj.Proof(); err == nil && i.proven && !p.Proven {
		entry.Proven, entry.Proof = false, p.What
	}
	if lasted := called.Sub(i.inj.Proof().Called); err == nil && lasted >= i.ttl {
		entry.Proven = false
		entry.Proof = fmt.Sprintf("its time to live of %s had expired before it was healed after %s", i.ttl, lasted)
	}
	if l, ok := r.cluster.(framework.Lapser); ok && err == nil {
		if why := l.Lapsed(ctx, i.inj.Proof().Called); why != "" {
			entry.Proven, entry.Proof = false, why
		}
	}
	if err == nil && slices.Contains(i.fault.EffectsWith(i.step.Params), record.EffectPower) {
		entry.Booted = r.booted(t.AllNodes(), i.inj.Proof().Called)
	}
	if err != nil {
		entry.Phase, entry.Proven, entry.Error = record.FaultFailed, false, err.Error()
		r.say("healing %s failed: %v (the provider heals it automatically %s after its injection)", i.step.ID, err, i.ttl)
	} else {
		r.say("%s is healed: %s", i.step.ID, entry.Proof)
	}
	if !proof.Proven {
		r.damage(fmt.Sprintf("the healing of %s is not proven", i.step.ID))
	}
	var effect time.Time
	if proof.Proven {
		effect = proof.Effect
	}
	r.recovery.add(r.cluster.Settings(), i, called, effect)
	return r.w.Append(record.KindFault, entry)
}

// damage notes that an existing cluster has not recovered.
func (r *run) damage(how string) {
	if r.options.Existing {
		r.damaged = how
	}
}

// booted returns when machines started that lost their power after a time, for those that report it.
func (r *run) booted(nodes []string, since time.Time) map[string]record.Nanos {
	all := map[string]record.Nanos{}
	for _, n := range r.cluster.Nodes() {
		b, ok := n.(framework.BootReporter)
		if !ok || !slices.Contains(nodes, n.Name()) {
			continue
		}
		if at := b.Booted(); at.After(since) {
			all[n.Name()] = r.w.Since(at)
		}
	}
	return all
}

func (r *run) unhealed() []*activeFault {
	return slices.DeleteFunc(slices.Clone(r.injections), func(i *activeFault) bool { return i.healed })
}

// healAll heals what the timeline left, the last first. If the record cannot be written, it heals
// all the same.
func (r *run) healAll(ctx context.Context) {
	left := r.unhealed()
	for _, i := range slices.Backward(left) {
		_ = r.phase("heal %s (at the end)", i.step.ID)
		_ = r.heal(ctx, i)
	}
}

// final makes sure that the record ends with a steady-state check of the final state, unless the
// cluster was unhealthy from the start and nothing was injected.
func (r *run) final(ctx context.Context) error {
	if r.unhealthy {
		return interrupted(ctx)
	}
	if !r.recovery.checked || r.recovery.stale {
		if err := r.recover(ctx); err != nil {
			return err
		}
	}
	r.settled()
	return interrupted(ctx)
}

// recover waits for the steady state and records it, timed from the last
// healing. It waits for longer than the limit, so that the record says how long
// it took.
func (r *run) recover(ctx context.Context) error {
	from, unbounded := r.recovery.limits(r.cluster.Settings())
	limit := min(longestRecovery, unbounded)
	if err := r.phase("recovery, limit %s", limit); err != nil {
		return err
	}
	r.settle(ctx, from, limit)
	connected := r.reconnect(ctx, from)
	late := time.Since(from)
	s := observe.SteadyState(ctx, r.cluster, max(longestRecovery-late, unbounded-late, 10*time.Second))
	if err := interrupted(ctx); err != nil {
		return errors.Join(err, connected())
	}
	s.Phase, s.Limit = "after", limit
	if unbounded > limit {
		s.Unbounded = unbounded
	}
	s.Took += late
	r.recovery.checked, r.recovery.stale = true, false
	if s.OK {
		r.damaged = ""
		r.say("steady again after %s", s.Took.Round(time.Millisecond))
	} else {
		r.damage("the cluster was not steady after the last healing")
		r.say("not steady after %s: %s", s.Took.Round(time.Millisecond), listed(s.Problems))
	}
	if err := errors.Join(r.w.Append(record.KindSteady, s), connected()); err != nil {
		return err
	}
	return interrupted(ctx)
}
