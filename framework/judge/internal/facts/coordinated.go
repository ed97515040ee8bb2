package facts

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
)

// With coordinated leader election (KEP-4355), one API server runs a controller that elects the
// active instances. Its times are from k8s.io/kubernetes v1.37.1,
// pkg/controlplane/controller/leaderelection.
const (
	// coordinatedElection is how long that controller may take once a lease has expired: it looks at
	// the lease every 5 s (defaultRequeueInterval), and waits for 5 s for the instance that does not
	// answer (electionDuration).
	coordinatedElection = 10 * time.Second
	// electionController is how long it may take until another API server runs the controller: L +
	// 4.4P of its own election (the defaults of --coordinated-leadership-lease-duration, 15 s, and
	// --coordinated-leadership-retry-period, 2 s).
	electionController = 23800 * time.Millisecond
)

// Coordinated returns the bound of what waits for a takeover after the check's fault: longer if API
// servers elect the active instances. A lease that must be kept, or is a further one, is not waited
// for.
func (m *Matter) Coordinated(b verdict.Bound) verdict.Bound {
	in := m.Fault.Injected
	if !m.coordinates() || m.Check.Params["kept"] == "true" || m.Check.Params["component"] == "further" {
		return b
	}
	b = b.Plus("coordinated election", coordinatedElection)
	if len(in.Group) > 0 || !slices.Contains(text.SplitList(DefaultElected), in.Component) {
		// It may have hit the API server that runs the controller.
		b = b.Plus("election controller", electionController)
	}
	return b
}

// coordinates reports whether the lease of an elected component had a strategy when it was last seen
// before the check's fault.
func (m *Matter) coordinates() bool {
	return slices.ContainsFunc(text.SplitList(DefaultElected), func(component string) bool {
		before := LeaseStates(m.Run, component, 0, m.Fault.Injected.Called)
		return len(before) > 0 && before[len(before)-1].V.Strategy != ""
	})
}
