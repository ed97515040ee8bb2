package facts

import (
	"cmp"
	"maps"
	"time"

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
func (m *Matter) Settings(component string) map[string]time.Duration {
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
