package judge

import (
	"cmp"
	"maps"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// settingsOf returns the durations for bounds by symbol: an elected component has a lease
// duration, a renew deadline and a retry period of its own. Records of before they were
// kept have the longest of all components for each.
func settingsOf(run *record.Run, component string) map[string]time.Duration {
	own := run.Meta.Elections[component]
	if len(own) == 0 {
		return run.Meta.Settings
	}
	all := maps.Clone(run.Meta.Settings)
	maps.Copy(all, own)
	return all
}

// settings returns the durations for bounds: those of an elected component where the
// record has its own, and else those of the cluster.
func (m *matter) settings(component string) map[string]time.Duration {
	return settingsOf(m.run, component)
}

// subject returns the component whose election a check is about: the one that it names, or
// that its fault hit.
func subject(check record.Check, fault *injection) string {
	hit := ""
	if fault != nil && fault.injected != nil {
		hit = fault.injected.Component
	}
	return cmp.Or(check.Params["component"], hit)
}
