package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/backup"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/observe"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload"
)

// action is what a step of a timeline may name apart from faults, waits and conditions.
type action struct {
	// do performs the action on the node of the injection that it names. It is nil for node
	// changes, which changeNodes makes.
	do         func(ctx context.Context, r *run, node string) error
	aboutFault bool
	// takes is how long it typically takes, expectedAction if zero: some actions let requests
	// time out, or components stop gracefully.
	takes time.Duration
	// limit is how long it may take, actionLimit if zero.
	limit time.Duration
	// needs returns an error if the cluster lacks an ability for the named node change.
	needs func(c framework.Cluster, name string) error
}

func needs[A any](c framework.Cluster, name string) error {
	_, err := fault.Ability[A](c, "cluster "+c.Name(), "action "+name)
	return err
}

// snapshotLimit is how long the snapshots of five etcd members may take, one by one.
const snapshotLimit = 5 * backup.SaveLimit

// unknownReadersLimit is how long some 1,500 requests to each API server may take: a busy machine
// answered 40 a second.
const unknownReadersLimit = 3 * time.Minute

func (a action) atMost() time.Duration { return cmp.Or(a.limit, actionLimit) }

// actions returns the actions that a scenario may name.
func actions() map[string]action {
	return map[string]action{
		"ready":                {do: onCluster(workload.Ready)},
		"versions":             {do: onCluster(workload.Versions)},
		"cross-read":           {do: onCluster(workload.CrossRead)},
		"cross-member":         {do: onCluster(workload.CrossMember)},
		"tokens":               {do: onCluster(workload.Tokens)},
		"certificates":         {do: onCluster(workload.Certificates)},
		"expiry":               {do: onCluster(workload.Expiry)},
		"unknown-readers":      {do: onCluster(workload.UnknownReaders), limit: unknownReadersLimit},
		"unknown-etcd-clients": {do: onCluster(workload.UnknownEtcdClients)},
		"addons":               {do: onCluster(workload.Addons)},
		"mixed-objects":        {do: onCluster(workload.MixedObjects), takes: 5 * time.Second},
		"lasting-objects":      {do: onCluster(workload.LastingObjects), takes: 2 * time.Second},
		"lasting-reads":        {do: onCluster(workload.LastingReads), takes: 2 * time.Second},
		"prepare-stale": {do: onCluster(func(ctx context.Context, c framework.Cluster, w *record.Writer) error {
			return errors.Join(workload.PrepareStale(ctx, c, w), workload.PrepareMoving(ctx, c, w))
		})},

		"snapshot":       {do: onNode(workload.Snapshot), aboutFault: true, limit: snapshotLimit},
		"stale-read":     {do: onNode(workload.StaleRead), aboutFault: true, takes: 3 * time.Second},
		"moving-reads":   {do: onNode(workload.MovingReads), aboutFault: true},
		"minority-probe": {do: onNode(workload.MinorityProbe), aboutFault: true, takes: 5 * time.Second},
		"add-member":     {do: func(ctx context.Context, r *run, node string) error { return r.addMember(ctx, node) }, aboutFault: true},

		"attempts":     {do: onTraffic(func(ctx context.Context, t *workload.Traffic, _ string) error { return t.Attempts(ctx) }), takes: 4 * time.Second},
		"old-watch":    {do: onTraffic(func(ctx context.Context, t *workload.Traffic, _ string) error { return t.OldWatch(ctx) })},
		"spread-watch": {do: onTraffic(func(ctx context.Context, t *workload.Traffic, _ string) error { return t.SpreadWatch(ctx) })},
		"list-watch":   {do: onTraffic(func(ctx context.Context, t *workload.Traffic, node string) error { return t.ListWatch(ctx, node) }), aboutFault: true},

		"user-reads": {do: inBackground(func(r *run) (func(), error) {
			return observe.StartUser(r.outer, observe.Config{Cluster: r.cluster}, r.w)
		})},
		"kept-reads": {do: inBackground(func(r *run) (func(), error) {
			return observe.StartKept(r.outer, observe.Config{Cluster: r.cluster}, r.w)
		})},
		"failover": {do: inBackground(func(r *run) (func(), error) {
			return workload.StartFailover(r.outer, r.cluster, r.w, SeedOf(r.options.Seed, r.experiment.Name))
		})},
		"informers": {do: inBackground(func(r *run) (func(), error) { return workload.StartInformers(r.outer, r.cluster, r.w) })},
		"trust":     {do: func(ctx context.Context, r *run, _ string) error { return r.trust.Look(ctx, r.cluster, r.w) }},

		actionUpgrade:     {takes: 13 * time.Second, needs: needs[framework.Upgrader]},
		actionUpgradeEtcd: {takes: 9 * time.Second, needs: needs[framework.EtcdUpgrader]},
		actionReconfigure: {takes: 22 * time.Second, needs: needs[framework.Reconfigurer]},
		actionRotate:      {takes: 22 * time.Second, needs: needs[framework.CertificateRotator]},
		actionRotateCA:    {takes: 22 * time.Second, needs: needs[framework.CARotator]},
		actionAddNode:     {needs: needs[framework.Scaler]},
		actionReplaceNode: {needs: needs[framework.NodeReplacer]},
		actionRemoveNode:  {needs: needs[framework.Scaler]},
		actionLoseNode:    {needs: needs[framework.Scaler]},
	}
}

// Actions returns the names of the actions that a step may name.
func Actions() []string { return sortedKeys(actions()) }

// aboutFaults reports for each action, or condition, whether it is about an injection.
func aboutFaults[T any](all map[string]T, is func(T) bool) map[string]bool {
	about := map[string]bool{}
	for name, one := range all {
		about[name] = is(one)
	}
	return about
}

func onCluster(do func(context.Context, framework.Cluster, *record.Writer) error) func(context.Context, *run, string) error {
	return func(ctx context.Context, r *run, _ string) error { return do(ctx, r.cluster, r.w) }
}

func onNode(do func(context.Context, framework.Cluster, string, *record.Writer) error) func(context.Context, *run, string) error {
	return func(ctx context.Context, r *run, node string) error { return do(ctx, r.cluster, node, r.w) }
}

func onTraffic(do func(context.Context, *workload.Traffic, string) error) func(context.Context, *run, string) error {
	return func(ctx context.Context, r *run, node string) error {
		if r.traffic == nil {
			return errNoTraffic
		}
		return do(ctx, r.traffic, node)
	}
}

// inBackground starts something that runs until the end of the timeline.
func inBackground(start func(*run) (stop func(), err error)) func(context.Context, *run, string) error {
	return func(_ context.Context, r *run, _ string) error {
		stop, err := start(r)
		if err != nil {
			return err
		}
		r.background = append(r.background, stop)
		return nil
	}
}

var errNoTraffic = errors.New("it needs the traffic, which is off")

// act performs an action. A failure is not an error of the run: the record then has no such
// operations, and the judges say so.
func (r *run) act(ctx context.Context, a *Action) {
	known := actions()[a.Name]
	ctx, cancel := context.WithTimeout(ctx, known.atMost())
	defer cancel()
	node := ""
	if i, err := r.injection(a.Fault); err == nil {
		node = i.inj.Target().Node
	}
	err := errors.New("no such action")
	if known.do != nil {
		err = known.do(ctx, r, node)
	}
	if err != nil {
		_ = r.phase("action %s failed: %v", a.Name, err)
	}
}

// addMember asks etcd to add a member. If etcd adds it, it is removed as soon as there is a
// quorum again.
func (r *run) addMember(ctx context.Context, node string) error {
	if p, ok := r.cluster.(framework.Promiser); ok {
		if err := p.CheckPromise(framework.Undoing{Fault: "add-member", Quorum: true}); err != nil {
			return err
		}
	}
	undo, err := workload.AddMember(ctx, r.cluster, node, r.w)
	if undo != nil {
		r.undoing.Go(func() {
			ctx, cancel := context.WithTimeout(r.outer, undoLimit)
			defer cancel()
			if err := undo(ctx); err != nil {
				r.say("%v", err)
			}
		})
	}
	return err
}

// undoLimit is how long undoing an action may take: a fault may have to be healed first.
const undoLimit = 3 * time.Minute
