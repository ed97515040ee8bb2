package clusters

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/yamlfile"
)

// Election is how the active instance of a component is elected.
type Election string

const (
	// ElectionLease: the instances elect one of themselves, by a lease in the API. It is the
	// default of components that a cluster file does not list.
	ElectionLease Election = "lease"
	// ElectionSupervisor: a supervisor on each node competes for a lock in etcd, and the
	// component runs only where the lock is held (podmaster). The lock's times are those that
	// the component's own flags --leader-elect-... would give its lease.
	ElectionSupervisor Election = "supervisor"
	// ElectionCareless is ElectionSupervisor with supervisors that leave the component running
	// when they lose the lock. Use it to plant a violation.
	ElectionCareless Election = "careless-supervisor"
)

// Supervised reports whether the component runs only where a lock is held.
func (e Election) Supervised() bool { return e == ElectionSupervisor || e == ElectionCareless }

// electable are the components that can be elected in more than one way.
var electable = []framework.Component{framework.ControllerManager, framework.Scheduler}

// Elects reports whether leader election of a component is on, as it is by default.
func (n Node) Elects(c framework.Component) bool {
	on, err := strconv.ParseBool(n.ExtraArgs[c]["leader-elect"])
	return on || err != nil
}

// ElectionTimes returns lease duration, renew deadline and retry period of a component on a
// node.
func (n Node) ElectionTimes(c framework.Component) (lease, renew, retry time.Duration, err error) {
	lease, badLease := argument(n, c, "leader-elect-lease-duration", defaultLeaseDuration, parseDuration)
	renew, badRenew := argument(n, c, "leader-elect-renew-deadline", defaultRenewDeadline, parseDuration)
	retry, badRetry := argument(n, c, "leader-elect-retry-period", defaultRetryPeriod, parseDuration)
	return lease, renew, retry, cmp.Or(badLease, badRenew, badRetry)
}

// elections reports what is wrong with how components are elected.
func (v *validator) elections(c *Cluster) {
	for _, component := range slices.Sorted(maps.Keys(c.Spec.Election)) {
		how, path := c.Spec.Election[component], yamlfile.Join("spec.election", string(component))
		if !slices.Contains(electable, component) {
			v.problem(path, "is not an elected component: want %s or %s", electable[0], electable[1])
			continue
		}
		if how != ElectionLease && !how.Supervised() {
			v.problem(path, "is %q: want %s, %s or %s", how, ElectionLease, ElectionSupervisor, ElectionCareless)
		}
		for _, n := range c.Nodes() {
			lease, renew, retry, err := n.ElectionTimes(component)
			if err != nil || !how.Supervised() {
				continue // the bounds report that
			}
			if problem := checkLock(lease, renew, retry); problem != nil {
				v.problem(path, "cannot have these times on %s: %v", n.Name, problem)
			}
		}
	}
}

// leases reports what is wrong with the leases of additional elected components. client-go must
// accept their times: see NewLeaderElector in k8s.io/client-go/tools/leaderelection.
func (v *validator) leases(all map[framework.Component]framework.Election) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e, path := all[name], yamlfile.Join("spec.leases", string(name))
		switch {
		case !hostname.MatchString(string(name)) || len(name) > 253:
			v.problem(path, "is not the name of a lease: want lower-case letters, digits, dashes and dots")
		case slices.Contains(electable, name):
			v.problem(path, "cannot be listed here: holdfast always watches the lease of %s, and its times are arguments of the component", name)
		case e.RetryPeriod <= 0 || e.RenewDeadline <= e.RetryPeriod*12/10 || e.LeaseDuration <= e.RenewDeadline:
			v.problem(path, "has a lease duration of %v, a renew deadline of %v and a retry period of %v: each must be longer than the next, and the deadline than 1.2 retry periods",
				e.LeaseDuration, e.RenewDeadline, e.RetryPeriod)
		}
	}
}

// checkLock reports what is wrong with the times of a lock.
func checkLock(lease, renew, retry time.Duration) error {
	switch {
	case lease%time.Second != 0 || lease < 2*time.Second:
		return fmt.Errorf("a lease of etcd lasts whole seconds, 2 or more, not %s", lease)
	case renew >= lease:
		return fmt.Errorf("the renew deadline of %s must be shorter than the lease of %s, or the component runs without its lock", renew, lease)
	case 2*retry > renew:
		return fmt.Errorf("two retry periods of %s must fit into the renew deadline of %s", retry, renew)
	}
	return nil
}
