package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/observe"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload"
)

// Options say how Run keeps its record.
type Options struct {
	// Dir is the directory of the record; it must not hold one.
	Dir string
	// Run identifies the run, Harness the version of the program, Provider
	// who made the cluster.
	Run, Harness, Provider string
	// Seed is what all random choices derive from.
	Seed uint64
	// Progress is told what happens, one line a step; nil for silence.
	Progress func(string)
}

const (
	// baselineLimit is how long the cluster may take to be steady before.
	baselineLimit = time.Minute
	// warmUp lets traffic and probes run before the first step, so that the
	// judges see an undisturbed time before the first fault.
	warmUp = 4 * time.Second
	// coolDown lets them run after the cluster is steady again.
	coolDown = 2 * time.Second
	// healLimit is how long one healing may take to prove itself.
	healLimit = 90 * time.Second
	// componentStart is what a component may take to start (see the
	// catalogue, "Bound").
	componentStart = 10 * time.Second
	// longestRecovery is the most that a recovery after a network fault is
	// allowed.
	longestRecovery = time.Minute
)

// Run makes the experiment and leaves its record in o.Dir. An error means that
// the experiment could not be made to its end; what was seen until then is in
// the record all the same.
func Run(ctx context.Context, c framework.Cluster, e Experiment, o Options) error {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	w, err := record.Create(o.Dir, meta(c, e, o))
	if err != nil {
		return err
	}
	r := &run{c: c, e: e, o: o, w: w, injections: map[string]*injected{}}
	end := record.End{}
	err = r.all(ctx)
	if err != nil {
		end.Error = err.Error()
	}
	return errors.Join(err, w.Close(end))
}

func meta(c framework.Cluster, e Experiment, o Options) record.Meta {
	m := record.Meta{Version: record.Version, Run: o.Run, Scenario: e.Name, Seed: o.Seed, Started: time.Now(),
		Harness: o.Harness, Provider: o.Provider, Settings: c.Settings().Symbols(), Checks: e.Checks,
		Versions: map[string]map[string]string{}}
	for _, n := range c.Nodes() {
		node := record.Node{Name: n.Name(), Address: n.Address().String()}
		for _, component := range n.Components() {
			node.Components = append(node.Components, string(component))
		}
		m.Nodes = append(m.Nodes, node)
	}
	for _, entrance := range c.Entrances() {
		m.Entrances = append(m.Entrances, entrance.Name)
	}
	for node, versions := range c.Versions() {
		m.Versions[node] = map[string]string{}
		for component, v := range versions {
			m.Versions[node][string(component)] = v
		}
	}
	return m
}

// run is one experiment under way.
type run struct {
	c          framework.Cluster
	e          Experiment
	o          Options
	w          *record.Writer
	injections map[string]*injected
	order      []*injected

	mu      sync.Mutex
	longest time.Duration // the longest time that a fault was in force; guarded by mu
}

// injected is an injection and its history.
type injected struct {
	step   Inject
	fault  fault.Fault
	inj    fault.Injection
	since  time.Time
	healed bool
}

func (r *run) phase(name string) {
	_ = r.w.Append(record.KindPhase, record.Phase{Name: name}) // Close reports what could not be written
	r.o.Progress(name)
}

func (r *run) all(ctx context.Context) error {
	r.phase("steady state before")
	before := observe.SteadyState(ctx, r.c, baselineLimit)
	before.Phase = "before"
	_ = r.w.Append(record.KindSteady, before)
	if !before.OK {
		// Nothing that is done to an unhealthy cluster proves anything.
		return ctx.Err()
	}
	observers, err := observe.Start(ctx, observe.Config{Cluster: r.c}, r.w)
	if err != nil {
		return err
	}
	defer observers.Stop()
	traffic, err := workload.Start(ctx, workload.Config{Seed: r.o.Seed, Entrances: r.c.Entrances(),
		ClientsPerEntrance: r.e.Traffic.ClientsPerEntrance, Keys: r.e.Traffic.Keys,
		Interval: r.e.Traffic.Interval, Timeout: r.e.Traffic.Timeout}, r.w)
	if err != nil {
		return err
	}
	defer traffic.Stop()

	err = r.timeline(ctx)
	// Faults are healed in any case; the time for it does not depend on what
	// ended the timeline.
	err = errors.Join(err, r.healAll(context.WithoutCancel(ctx)))
	if ctx.Err() != nil {
		return err
	}
	r.phase("steady state after")
	after := observe.SteadyState(ctx, r.c, r.recoveryLimit())
	after.Phase = "after"
	_ = r.w.Append(record.KindSteady, after)
	return errors.Join(err, sleep(ctx, coolDown), observers.Err(), traffic.Err())
}

// recoveryLimit is how long the cluster may take to be steady again after the
// last healing: twice an election and the margin, and a component's start time
// or the time that the longest fault was in force, since TCP's retransmission
// backs off for about that long (60 s at most in all). Both are allowed
// whatever the fault was: a killed component's peers back off as well.
func (r *run) recoveryLimit() time.Duration {
	s := r.c.Settings()
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := 2*s.ElectionTimeout + s.Margin
	return max(limit+componentStart, min(limit+r.longest, longestRecovery))
}

func (r *run) timeline(ctx context.Context) error {
	r.phase("warm-up")
	if err := sleep(ctx, warmUp); err != nil {
		return err
	}
	for _, s := range r.e.Timeline {
		r.phase(s.what())
		var err error
		switch {
		case s.Inject != nil:
			err = r.inject(ctx, *s.Inject)
		case s.Heal != "":
			err = r.heal(ctx, r.injections[s.Heal])
		case s.Until != nil:
			err = r.until(ctx, *s.Until)
		case s.Action != nil:
			err = r.act(ctx, *s.Action)
		default:
			err = sleep(ctx, s.Wait)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.what(), err)
		}
	}
	return nil
}

func (r *run) inject(ctx context.Context, s Inject) error {
	f, ok := fault.ByName(s.Fault)
	if !ok {
		return fmt.Errorf("no fault %q", s.Fault)
	}
	called := time.Now()
	entry := record.Fault{ID: s.ID, Name: s.Fault, Target: s.Target, Params: s.Params, Phase: record.FaultFailed, Called: r.w.Since(called)}
	failed := func(err error) error {
		entry.Error = err.Error()
		_ = r.w.Append(record.KindFault, entry)
		return err
	}
	target, err := fault.Resolve(ctx, r.c, s.Target)
	if err != nil {
		return failed(err)
	}
	entry.Node, entry.Component = target.Node, string(target.Component)
	p := fault.Params{TTL: s.TTL, Values: maps.Clone(s.Params)}
	if p.TTL == 0 {
		p.TTL = DefaultTTL
	}
	if err := f.Check(r.c, target, p); err != nil {
		return failed(err)
	}
	inj, err := f.Inject(ctx, r.c, target, p)
	if err != nil {
		return failed(err)
	}
	in := &injected{step: s, fault: f, inj: inj, since: called}
	r.injections[s.ID] = in
	r.order = append(r.order, in)
	r.record(entry, record.FaultInjected, inj.Proof())
	return nil
}

func (r *run) record(entry record.Fault, phase record.FaultPhase, p fault.Proof) {
	entry.Phase, entry.Proven, entry.Proof = phase, p.Proven, p.What
	entry.Called = r.w.Since(p.Called)
	if !p.Effect.IsZero() {
		entry.Effect = r.w.Since(p.Effect)
	}
	_ = r.w.Append(record.KindFault, entry)
	proven := "proven"
	if !p.Proven {
		proven = "NOT proven"
	}
	r.o.Progress(fmt.Sprintf("%s %s of %s on %s: %s: %s", entry.ID, phase, entry.Name, entry.Node, proven, p.What))
}

// heal heals one injection; it does nothing where that is done already.
func (r *run) heal(ctx context.Context, in *injected) error {
	if in == nil || in.healed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, healLimit)
	defer cancel()
	t := in.inj.Target()
	entry := record.Fault{ID: in.step.ID, Name: in.step.Fault, Target: in.step.Target, Node: t.Node,
		Component: string(t.Component), Params: in.step.Params}
	called := time.Now()
	proof, err := in.inj.Heal(ctx)
	if err != nil {
		entry.Phase, entry.Called, entry.Error = record.FaultFailed, r.w.Since(called), err.Error()
		_ = r.w.Append(record.KindFault, entry)
		return fmt.Errorf("healing %s: %w", in.step.ID, err)
	}
	in.healed = true
	r.mu.Lock()
	r.longest = max(r.longest, called.Sub(in.since))
	r.mu.Unlock()
	r.record(entry, record.FaultHealed, proof)
	return nil
}

// healAll heals what is still injected, all at once: where several members are
// down, none answers before enough of them are back.
func (r *run) healAll(ctx context.Context) error {
	problems := make([]error, len(r.order))
	var wg sync.WaitGroup
	for i, in := range r.order {
		if !in.healed {
			r.phase("heal " + in.step.ID)
			wg.Go(func() { problems[i] = r.heal(ctx, in) })
		}
	}
	wg.Wait()
	return errors.Join(problems...)
}

const untilEvery = 200 * time.Millisecond

func (r *run) until(ctx context.Context, u Until) error {
	holds, ok := conditions[u.Condition]
	if !ok {
		return fmt.Errorf("no condition %q", u.Condition)
	}
	in := r.injections[u.Fault]
	if in == nil {
		return fmt.Errorf("no injection %q", u.Fault)
	}
	bound, err := judge.ParseBound(u.AtMost, r.c.Settings().Symbols())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bound.Limit)
	defer cancel()
	for {
		// An error here is the cluster's trouble, which observers record.
		if ok, err := holds(ctx, r.c, in.inj.Target()); ok && err == nil {
			return nil
		}
		if err := sleep(ctx, untilEvery); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				r.o.Progress(fmt.Sprintf("%s did not come about within %s", u.Condition, bound.Limit))
				return nil
			}
			return err
		}
	}
}

func (r *run) act(ctx context.Context, a Action) error {
	act, ok := actions[a.Name]
	if !ok {
		return fmt.Errorf("no action %q", a.Name)
	}
	node := ""
	if act.needsFault {
		in := r.injections[a.Fault]
		if in == nil {
			return fmt.Errorf("no injection %q", a.Fault)
		}
		node = in.inj.Target().Node
	}
	if err := act.do(ctx, r.c, node, r.w); err != nil && ctx.Err() == nil {
		// The action could not be made. The run goes on: what the record
		// lacks, the judges see.
		r.o.Progress(err.Error())
	}
	return ctx.Err()
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
