package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/observe"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// baselineLimit is how long a cluster may take to become healthy at the start.
	baselineLimit = 60 * time.Second
	// healLimit is how long one healing, with its proof, may take. It also
	// counts after an interrupt.
	healLimit = 90 * time.Second
	// actionLimit is how long one action may take that has no limit of its own.
	actionLimit = 60 * time.Second
	// injectLimit is how long finding a target and breaking it may take, unless the parameters of
	// the fault ask for more.
	injectLimit = 45 * time.Second
	// hashLimit is how long comparing the members' data may take.
	hashLimit = 15 * time.Second
	// spare is added to an injection's time to live.
	spare = 2 * time.Minute
)

// Options are what Run needs besides the cluster and the experiment.
type Options struct {
	// Dir is where the record is made; it must not hold one.
	Dir string
	// Run identifies the run, the time of its start if empty.
	Run string
	// Seed is the run's; the experiment's own is derived from it and its name.
	Seed uint64
	// Harness is the version of holdfast, Provider the provider's name.
	Harness, Provider string
	// Faults and Judges are what the experiment may name in addition to the built-in ones. Run
	// injects the faults; it leaves judging to judge.Evaluate, which receives the judges as well.
	Faults []*fault.Fault
	Judges []judge.Judge
	// Existing says that the cluster stays: once it has not recovered from a fault, no other one is
	// injected and no node is changed.
	Existing bool
	// Progress receives what happens, one line per step; nil for silence.
	Progress func(string)
	// Before is called before each step of the timeline with its number, and once more, with the
	// number of steps, when everything is healed and before the steady state is checked. It may
	// be nil and may write to the record. An error ends the run. It is for tests that plant
	// violations into a cluster.
	Before func(ctx context.Context, step int, w *record.Writer) error

	baseline time.Duration // baselineLimit, but in tests
}

// SeedOf derives the seed of one experiment from that of the run, so that an experiment repeats
// its choices regardless of which others run.
func SeedOf(run uint64, experiment string) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s", run, experiment))
	return binary.LittleEndian.Uint64(sum[:])
}

// Run carries out an experiment and writes its record. Cluster behavior and findings are not
// errors, nor is an unhealthy baseline, a fault without proof or a timeout: all of these are in
// the record for the judges. An error means that the record is incomplete, and is noted in it too
// if possible. Whatever Run injected is healed, even after ctx has ended.
func Run(ctx context.Context, c framework.Cluster, e Experiment, o Options) error {
	for _, p := range e.Validate(o) {
		return fmt.Errorf("experiment %s: %w", e.Name, p)
	}
	if o.Before == nil {
		o.Before = func(context.Context, int, *record.Writer) error { return nil }
	}
	w, err := record.Create(o.Dir, meta(c, e, o))
	if err != nil {
		return err
	}
	r := &run{cluster: c, experiment: e, options: o, w: w, start: time.Now(), apis: map[string]*client.API{}}
	defer r.close()
	err = r.whole(ctx)
	end := record.End{}
	if err != nil {
		end.Error = err.Error()
	}
	if closing := w.Close(end); err == nil {
		err = closing
	}
	if err != nil {
		r.say("stopped early: %v", err)
	} else {
		r.say("done")
	}
	return err
}

func meta(c framework.Cluster, e Experiment, o Options) record.Meta {
	outside := framework.OutsideEtcd(c)
	m := record.Meta{
		Run: cmp.Or(o.Run, time.Now().UTC().Format("20060102T150405Z")), Scenario: e.Name, Seed: SeedOf(o.Seed, e.Name), Harness: o.Harness, Provider: o.Provider,
		Settings: c.Settings().Symbols(), RemoteEtcd: c.Settings().RemoteEtcd || outside != "", OutsideEtcd: outside, GoawayChance: c.Settings().GoawayChance, Assumed: c.Settings().Assumed, Origins: c.Settings().Origins, Checks: e.Checks, Versions: map[string]map[string]string{},
		Elections: map[string]map[string]time.Duration{}, NoAccess: noAccess(c),
	}
	for component, e := range c.Settings().Elections {
		m.Elections[string(component)] = e.Symbols()
	}
	for _, n := range c.Nodes() {
		m.Nodes = append(m.Nodes, nodeEntry(n))
	}
	for _, entrance := range c.Entrances() {
		m.Entrances = append(m.Entrances, entrance.Name)
	}
	for node, versions := range c.Versions() {
		m.Versions[node] = map[string]string{}
		for component, version := range versions {
			m.Versions[node][string(component)] = version
		}
	}
	return m
}

// noAccess returns what the provider gives no access to.
func noAccess(c framework.Cluster) (all []record.Access) {
	lacks := func(able func(framework.Node) bool) bool {
		return slices.ContainsFunc(c.Nodes(), func(n framework.Node) bool { return !able(n) })
	}
	if lacks(func(n framework.Node) bool {
		if framework.EtcdAlone(n) {
			return true // no API server would write one
		}
		_, ok := n.(framework.AuditReader)
		s, asks := n.(framework.AuditSupporter)
		return ok && (!asks || s.AuditSupport() == nil)
	}) {
		all = append(all, record.AuditLogs)
	}
	// The members of an external etcd are elsewhere.
	if _, ok := c.(framework.EtcdAccess); !ok || len(framework.NodesWith(c, framework.Etcd)) == 0 {
		all = append(all, record.EtcdMembers)
	}
	if lacks(func(n framework.Node) bool { _, ok := n.(framework.ProcessReporter); return ok }) {
		all = append(all, record.Processes)
	}
	return all
}

type run struct {
	cluster    framework.Cluster
	experiment Experiment
	options    Options
	w          *record.Writer
	start      time.Time

	// outer ends after the experiment, even if that is interrupted.
	outer     context.Context
	observers *observe.Observers

	injections []*activeFault    // in the order of injection
	foreseen   bool              // it is known that the cluster has the abilities for the rest
	damaged    string            // how an existing cluster has not recovered; empty if it has
	unhealthy  bool              // the baseline is, and nothing is injected
	traffic    *workload.Traffic // nil if it is off
	recovery   recovery
	settling   *settling        // nil if nothing is followed
	listed     bool             // the API servers' addresses were listed correctly
	reporters  map[string]bool  // nodes that reported their connections
	peerings   map[peering]bool // connections of etcd members that existed
	served     bool             // every API server acknowledged a write and opened a watch, before a fault
	added      []namedNode      // in the order of joining, those that still exist
	removed    []namedNode      // in the order of leaving, those that were not replaced
	background []func()         // stops what runs beside the timeline
	trust      workload.Trust
	undoing    sync.WaitGroup // what actions did

	mu   sync.Mutex             // held by heal as well
	apis map[string]*client.API // by entrance, made when first used
}

// errBaseline ends an experiment whose cluster was unhealthy from the start.
var errBaseline = errors.New("the baseline is unhealthy")

func (r *run) whole(ctx context.Context) error {
	switch err := r.baseline(ctx); {
	case errors.Is(err, errBaseline) && r.experiment.Harmless():
		r.unhealthy = true // what is wrong with the cluster is what the experiment is to find out
	case errors.Is(err, errBaseline):
		return nil // recorded: the judges say what follows from it
	case err != nil:
		return err
	}
	// Observers and traffic outlive an interrupt, so that they see the healing.
	outer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	observers, err := observe.Start(outer, observe.Config{Cluster: r.cluster, ProbeInterval: r.experiment.ProbeInterval, Unprepared: r.unhealthy}, r.w)
	switch {
	case err != nil && r.unhealthy:
		r.say("the cluster cannot be observed: %v", err)
		return interrupted(ctx) // the baseline is recorded
	case err != nil:
		return fmt.Errorf("failed to start the observers: %w", err)
	}
	r.outer, r.observers = outer, observers
	defer observers.Stop()
	defer r.unsettle()
	stop, err := r.startTraffic(ctx)
	if errors.Is(err, errBaseline) {
		return observers.Err()
	} else if err != nil {
		return err
	}
	defer func() {
		// The caller may recover and continue with the cluster.
		if p := recover(); p != nil {
			r.healAll(ctx)
			stop(false)
			panic(p)
		}
	}()

	r.lookListed(ctx)
	err = r.timeline(ctx)
	r.healAll(ctx) // before what the actions started, which may wait for API servers that answer
	for _, stop := range r.background {
		stop()
	}
	r.undoing.Wait()
	if err == nil {
		err = r.options.Before(ctx, len(r.experiment.Timeline), r.w)
	}
	if err == nil {
		err = r.final(ctx)
	}
	if err == nil {
		err = r.phase("final reads")
	}
	stop(err == nil)
	if err == nil {
		r.hash(ctx)
		err = interrupted(ctx)
	}
	observers.Stop()
	if err == nil {
		err = observers.Err()
	}
	return err
}

// baseline waits for the cluster to be healthy and records the result.
func (r *run) baseline(ctx context.Context) error {
	if err := r.phase("baseline"); err != nil {
		return err
	}
	unhealed := r.assignRoles(ctx)
	s := observe.SteadyState(ctx, r.cluster, cmp.Or(r.options.baseline, baselineLimit))
	if unhealed != nil {
		s.OK, s.Problems = false, append(s.Problems, unhealed.Error())
	}
	if err := interrupted(ctx); err != nil {
		return errors.Join(err, unhealed)
	}
	s.Phase = "before"
	if err := r.w.Append(record.KindSteady, s); err != nil {
		return err
	}
	if !s.OK {
		r.say("the cluster was not healthy within %s: %s", s.Limit, listed(s.Problems))
		return errBaseline
	}
	if err := r.awaitElected(ctx); err != nil && ctx.Err() == nil {
		r.say("continuing without an active instance, which judges will report: %v", err)
	}
	return interrupted(ctx)
}

// startTraffic returns the function that stops the traffic: after final reads, or immediately.
func (r *run) startTraffic(ctx context.Context) (stop func(finish bool), err error) {
	if r.unhealthy {
		r.say("the traffic is left out, since nothing could be concluded from it")
	}
	if r.experiment.Traffic.Off || r.unhealthy {
		return func(bool) {}, nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cfg := workload.Config{Seed: SeedOf(r.options.Seed, r.experiment.Name), Cluster: r.cluster, Settings: r.experiment.Traffic.Settings}
	traffic, err := workload.Start(ctx, cfg, r.w)
	var broken *workload.ApplicationError
	switch {
	case errors.As(err, &broken):
		cancel()
		r.say("%v", broken)
		s := record.Steady{Phase: record.SteadyApplication, Took: broken.Limit, Limit: broken.Limit, Problems: []string{broken.Error()}}
		return nil, cmp.Or(r.w.Append(record.KindSteady, s), errBaseline)
	case err != nil:
		cancel()
		return nil, fmt.Errorf("failed to start the traffic: %w", err)
	}
	r.traffic = traffic
	return func(finish bool) {
		if !finish {
			cancel()
		}
		traffic.Stop()
		cancel()
	}, nil
}

// hash has the members compare their data. A failure is not a reason to end the experiment: the
// record then has no comparison.
func (r *run) hash(ctx context.Context) {
	if _, ok := r.cluster.(framework.EtcdAccess); !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, hashLimit)
	defer cancel()
	if err := observe.HashEtcd(ctx, r.cluster, r.w); err != nil {
		r.say("comparing the etcd members' data: %v", err)
	}
}

// phase marks the start of a step in the record and in the progress. Its error is that of the
// record.
func (r *run) phase(format string, args ...any) error {
	name := fmt.Sprintf(format, args...)
	r.say("%s", name)
	return r.w.Append(record.KindPhase, record.Phase{Name: name})
}

func (r *run) say(format string, args ...any) {
	if r.options.Progress != nil {
		r.options.Progress(fmt.Sprintf("%s %5.1fs  %s", r.experiment.Name, time.Since(r.start).Seconds(), fmt.Sprintf(format, args...)))
	}
}

func (r *run) close() {
	for _, api := range r.apis {
		api.Close()
	}
}

// interrupted returns why the experiment must end, if it must.
func interrupted(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("interrupted: %w", context.Cause(ctx))
}
