package remote

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/framework"
)

// The times of elections are those of the arguments where they are seen, and of Lease objects where
// they are not: vendors configure them in ways that no process shows (OpenShift's lease lasts 137 s).

// elected are the components whose instances elect one of themselves.
var elected = []framework.Component{framework.ControllerManager, framework.Scheduler}

// The flags of their elections.
const (
	leaseFlag = "leader-elect-lease-duration"
	renewFlag = "leader-elect-renew-deadline"
	retryFlag = "leader-elect-retry-period"
)

// leaseDurations returns the durations of the Leases of elected components.
func (a *access) leaseDurations(ctx context.Context) (map[framework.Component]time.Duration, error) {
	all := map[framework.Component]time.Duration{}
	for _, c := range elected {
		var lease coordinationv1.Lease
		err := a.read(ctx, await.LeasePath(c), &lease)
		if notFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("failed to read the lease of %s: %w", c, err)
		}
		if d := lease.Spec.LeaseDurationSeconds; d != nil && *d > 0 {
			all[c] = time.Duration(*d) * time.Second
		}
	}
	return all, nil
}

// withLeases returns arguments with the times of Leases for components whose arguments have no lease
// duration. shown reports whether all arguments of a component are seen: it then has the default, but
// if its Lease lasts longer, a file or a program that cannot be seen configures it. The longer one is
// used, so that no bound is too short.
func withLeases(args clusters.ExtraArgs, leases map[framework.Component]time.Duration, shown func(framework.Component) bool) clusters.ExtraArgs {
	for _, c := range elected {
		lease, ok := leases[c]
		usual, _, _, _ := clusters.Node{}.ElectionTimes(c) // the defaults are valid
		if !ok || args[c][leaseFlag] != "" || shown(c) && lease <= usual {
			continue
		}
		times := map[string]string{leaseFlag: lease.String()}
		if lease != usual {
			times[renewFlag], times[retryFlag] = lease.String(), longestRetry(lease).String()
		}
		args = clusters.ExtraArgs{c: times}.Merge(args)
	}
	return args
}

// longestRetry returns the longest retry period with a lease duration, in whole seconds. Leases
// contain neither it nor the renew deadline, but client-go requires the deadline to be shorter than
// the lease, and 1.2 periods to be shorter than the deadline: see NewLeaderElector in
// k8s.io/client-go/tools/leaderelection.
func longestRetry(lease time.Duration) time.Duration {
	return (lease*10/12 + time.Second - 1).Truncate(time.Second)
}

// shows reports whether the process of a component has all its arguments, or no process was found.
func (f *found) shows(c framework.Component) bool { return !f.fused(c) && f.unread != c }

// shows returns whether the static pods of a node have all arguments of a component.
func (m mirrors) shows(node string) func(framework.Component) bool {
	return func(c framework.Component) bool {
		p, ok := m.processes(node)[c]
		return ok && p.flag("config") == ""
	}
}

// leaseName names the Lease of an elected component.
func leaseName(c framework.Component) string {
	return fmt.Sprintf("the Lease %s/%s", metav1.NamespaceSystem, c)
}

// source returns where components have their flags from: from what was seen of a node, from its
// static pods if it was not inspected or is lost, or else from Leases.
func (c *Observed) source(seen map[string]*found) clusters.Source {
	return func(node string, component framework.Component, flag string) string {
		if f := seen[node]; f.known() {
			if p, ok := f.processes[component]; ok && p.flag(flag) != "" {
				return p.source(flag)
			}
		} else if c.pods.args(node)[component][flag] != "" {
			return "the manifest of its static pod"
		}
		if slices.Contains(elected, component) {
			return leaseName(component)
		}
		return ""
	}
}

// explain notes where the settings come from, and which times of elections nothing shows.
func (c *Observed) explain(seen map[string]*found) {
	source := c.source(seen)
	c.settings.Origins = clusters.Origins(c.spec, c.settings, source)
	for _, n := range c.spec.Nodes() {
		for _, component := range elected {
			for _, one := range []struct{ flag, symbol string }{{renewFlag, "R"}, {retryFlag, "P"}} {
				if n.ExtraArgs[component][one.flag] != "" && source(n.Name, component, one.flag) == leaseName(component) {
					c.assume(one.symbol)
				}
			}
		}
	}
}

// assume notes that nothing shows a setting.
func (c *Observed) assume(symbol string) {
	if !slices.Contains(c.settings.Assumed, symbol) {
		c.settings.Assumed = append(c.settings.Assumed, symbol)
	}
}
