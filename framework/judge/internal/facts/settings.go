package facts

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// SettingsOf returns the durations for bounds by symbol: each elected component has its own lease
// duration, renew deadline and retry period. Records from before these were kept have the longest
// of all components for each.
func SettingsOf(run *record.Run, component string) map[string]time.Duration {
	own := run.Meta.Elections[component]
	if len(own) == 0 {
		return run.Meta.Settings
	}
	all := maps.Clone(run.Meta.Settings)
	maps.Copy(all, own)
	return all
}

// Settings returns the durations for bounds: those of an elected component if the record has
// them, otherwise those of the cluster.
func (m *Case) Settings(component string) map[string]time.Duration {
	return SettingsOf(m.Run, component)
}

// Subject returns the component whose election a check is about: the one that it names, or
// that its fault hit.
func Subject(check record.Check, fault *Injection) string {
	hit := ""
	if fault != nil && fault.Injected != nil {
		hit = fault.Injected.Component
	}
	return cmp.Or(check.Params["component"], hit)
}

// Coordinated returns the bound of what waits for a takeover after the check's fault: longer if API
// servers elect the active instances. A lease that must be kept, or is a further one, is not waited
// for.
func (m *Case) Coordinated(b verdict.Bound) verdict.Bound {
	in := m.Fault.Injected
	if !m.coordinates() || m.Check.Params["kept"] == "true" || m.Check.Params["component"] == "further" {
		return b
	}
	expires := time.Duration(0) // what the bound has for the lease to expire and a standby to see it
	if s := m.Settings(Subject(m.Check, m.Fault)); b.Inputs["L"] > 0 {
		expires = min(TakeoverTime(s), b.Limit-s["M"])
	}
	b = b.Plus("coordinated election", record.CoordinatedElection)
	if len(in.Group) > 0 || !slices.Contains(text.SplitList(DefaultElected), in.Component) {
		// It may have hit the API server that runs the controller. Another one takes that over
		// while the lease of the component expires.
		if longer := record.ElectionController - expires; longer > 0 {
			b = b.Plus("election controller", longer)
		}
	}
	return b
}

// TakeoverTime is how long it may take until a standby takes over from a lost holder: L + 4.4P.
func TakeoverTime(s map[string]time.Duration) time.Duration { return s["L"] + s["P"]*44/10 }

// ElectionLimit returns how long an election may take that starts when a lease without a holder is
// first seen, as after the loss of its holder: longer if API servers elect the active instance.
func (m *Case) ElectionLimit(component string, coordinated bool) time.Duration {
	s := m.Settings(component)
	if !coordinated {
		return TakeoverTime(s) + s["M"]
	}
	return max(TakeoverTime(s), record.ElectionController) + record.CoordinatedElection + s["M"]
}

// coordinates reports whether the lease of an elected component had a strategy when it was last seen
// before the check's fault.
func (m *Case) coordinates() bool {
	return slices.ContainsFunc(text.SplitList(DefaultElected), func(component string) bool {
		before := LeaseStates(m.Run, component, 0, m.Fault.Injected.Called)
		return len(before) > 0 && before[len(before)-1].V.Strategy != ""
	})
}
