package facts

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Coordinated returns the bound of what waits for a takeover after the check's fault: longer if API
// servers elect the active instances. A lease that must be kept, or is a further one, is not waited
// for.
func (m *Matter) Coordinated(b verdict.Bound) verdict.Bound {
	in := m.Fault.Injected
	if !m.coordinates() || m.Check.Params["kept"] == "true" || m.Check.Params["component"] == "further" {
		return b
	}
	b = b.Plus("coordinated election", record.CoordinatedElection)
	if len(in.Group) > 0 || !slices.Contains(text.SplitList(DefaultElected), in.Component) {
		// It may have hit the API server that runs the controller.
		b = b.Plus("election controller", record.ElectionController)
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
