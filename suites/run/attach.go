package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/observe"
	"github.com/holdfast-ha/holdfast/framework/scratch"
	"github.com/holdfast-ha/holdfast/framework/workload"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// refusal is the text of a clusters.ErrUnsafe, as a worker reports it.
type refusal string

func (r refusal) Error() string { return string(r) }

// Is reports whether target is clusters.ErrUnsafe.
func (refusal) Is(target error) bool { return target == clusters.ErrUnsafe }

// takeOver takes over a cluster for a run, which must be healthy unless the run is harmless.
func takeOver(ctx context.Context, provider clusters.Provider, spec *clusters.Cluster, results string, harmless bool, progress func(string)) (*takenOver, error) {
	a, ok := provider.(clusters.Attacher)
	if !ok { // describe has checked this
		return nil, fmt.Errorf("the provider %s cannot take over clusters", provider.Name())
	}
	// The taken-over cluster's credentials do not belong in a results directory.
	dir, remove, err := scratch.Dir("holdfast-attached-")
	if err != nil {
		return nil, fmt.Errorf("failed to create the state directory of cluster %s: %w", spec.Metadata.Name, err)
	}
	made, err := a.Attach(ctx, spec, clusters.Options{Dir: dir, Snapshots: filepath.Join(results, clusters.SnapshotDir), Harmless: harmless, Progress: progress})
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	taken := &takenOver{made, remove, cleanUpLimit, letGoLimit}
	if harmless { // the record of each scenario shows how healthy it is
		return taken, nil
	}
	if s := observe.SteadyState(ctx, made, healthyLimit); !s.OK {
		err := fmt.Errorf("%w: cluster %s is not healthy: %s", clusters.ErrUnsafe, spec.Metadata.Name, strings.Join(s.Problems, "; "))
		return nil, errors.Join(err, taken.Close(ctx))
	}
	return taken, nil
}

// stillPermitted returns nil if a cluster that was taken over still permits faults. What was just
// healed may take a moment until it is ready.
func stillPermitted(ctx context.Context, c framework.Cluster) error {
	owner, ok := c.(clusters.Permitted)
	if !ok {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, healthyLimit)
	defer cancel()
	err := client.Until(limited, time.Second, owner.Permitted)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// healthyLimit is how long a taken-over cluster may take to become healthy.
const healthyLimit = 30 * time.Second

// takenOver is a cluster that stays when the run is over. It does not embed the cluster, whose
// abilities are its own methods.
type takenOver struct {
	cluster clusters.Made
	remove  func() error  // removes its state directory
	limit   time.Duration // for deleting what the run made; cleanUpLimit outside of tests
	release time.Duration // for releasing the cluster; letGoLimit outside of tests
}

// cleanUpLimit is how long deleting what a run made in a cluster may take.
const cleanUpLimit = 30 * time.Second

// Close deletes what traffic, probes and actions created, and releases the cluster.
func (c *takenOver) Close(ctx context.Context) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.limit)
	defer cancel()
	err := workload.CleanUp(limited, c.cluster.Entrances())
	if access, ok := c.cluster.(framework.EtcdAccess); ok {
		members := framework.NodeNames(framework.NodesWith(c.cluster, framework.Etcd))
		more, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.limit)
		defer cancel()
		err = errors.Join(err, workload.CleanUpEtcd(more, access, members))
	}
	releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.release)
	defer cancel()
	return errors.Join(err, c.cluster.Close(releasing), c.remove())
}

// ErrChanged is in the error of a Resume whose cluster is not as the plan describes it.
var ErrChanged = errors.New("changed")

// unchanged returns nil if an existing cluster still is as the plan describes it: records contain the
// versions and settings of that description.
func (p *Plan) unchanged(ctx context.Context, provider clusters.Provider) error {
	a, ok := provider.(clusters.Attacher)
	if !ok || !p.Attach {
		return nil
	}
	describe := func() (*clusters.Cluster, error) {
		if again, ok := provider.(clusters.Redescriber); ok {
			return again.Redescribe(ctx, p.Cluster)
		}
		return a.Describe(ctx, p.Cluster.Metadata.Name)
	}
	now, err := describe()
	if err != nil && ctx.Err() == nil { // faults of a run that was killed may be why
		if err := p.LetGo(ctx, provider); err != nil {
			return err
		}
		now, err = describe()
	}
	if err != nil {
		return err
	}
	changes, err := changes(p.Cluster, now)
	if err == nil && len(changes) > 0 {
		err = fmt.Errorf("cluster %s has %w since the run was planned: %s; change it back, or start a new run (within a minute of the interruption: try again, since a fault may still be active)", p.Cluster.Metadata.Name, ErrChanged, strings.Join(changes, ", "))
	}
	return err
}

// changes returns how two descriptions of a cluster differ in what verdicts rest on. The version of an
// API server that did not answer is empty.
func changes(planned, now *clusters.Cluster) (all []string, err error) {
	differ := func(what string, before, after any) {
		if !reflect.DeepEqual(before, after) {
			all = append(all, fmt.Sprintf("%s was %v and is %v", what, before, after))
		}
	}
	if planned.Spec.UID != "" && now.Spec.UID != "" {
		differ("its UID", planned.Spec.UID, now.Spec.UID)
	}
	was, is := planned.Nodes(), now.Nodes()
	differ("the number of nodes", len(was), len(is))
	for i := range min(len(was), len(is)) {
		differ("node "+strconv.Itoa(i+1), was[i].Name, is[i].Name)
		if was[i].KubernetesVersion != "" && is[i].KubernetesVersion != "" {
			differ("Kubernetes on "+is[i].Name, was[i].KubernetesVersion, is[i].KubernetesVersion)
		}
		differ("etcd on "+is[i].Name, was[i].EtcdVersion, is[i].EtcdVersion)
	}
	before, err := clusters.Settings(planned)
	if err != nil {
		return nil, err
	}
	after, err := clusters.Settings(now)
	if err != nil {
		return nil, err
	}
	symbols := after.Symbols()
	for _, name := range slices.Sorted(maps.Keys(symbols)) {
		differ(name, before.Symbols()[name], symbols[name])
	}
	for _, component := range slices.Sorted(maps.Keys(after.Elections)) {
		differ("the election of "+string(component), before.Elections[component].Symbols(), after.Elections[component].Symbols())
	}
	differ("the number of elected components", len(before.Elections), len(after.Elections))
	differ("the goaway chance", before.GoawayChance, after.GoawayChance)
	differ("the list of etcd servers", before.EtcdServers, after.EtcdServers)
	differ("the use of other nodes' etcd", before.RemoteEtcd, after.RemoteEtcd)
	return all, nil
}

// letGoLimit is how long releasing a cluster may take if its worker has not done it: agents first
// heal active faults.
const letGoLimit = 3 * time.Minute

// LetGo releases a taken-over cluster if its worker died before doing so.
func (p *Plan) LetGo(ctx context.Context, provider clusters.Provider) error {
	a, ok := provider.(clusters.Attacher)
	if !ok || !p.Attach {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGoLimit)
	defer cancel()
	return a.Detach(ctx, p.Cluster, false)
}
