package reports

import (
	"slices"
	"strings"
	"time"
)

// setting is a duration that bounds are computed from.
type setting struct {
	// Symbol is that of the catalogue, Name what it stands for.
	Symbol, Name string
	// Value is what all clusters of the run have, or each value that some of them have.
	Value string
}

// settingNames returns what the catalogue's symbols stand for, in the order in which they are
// shown.
func settingNames() []setting {
	return []setting{
		{Symbol: "L", Name: "lease duration"}, {Symbol: "R", Name: "renew deadline"}, {Symbol: "P", Name: "retry period"},
		{Symbol: "T", Name: "time to live of endpoints"}, {Symbol: "I", Name: "reconcile interval of endpoints"},
		{Symbol: "E", Name: "etcd's election timeout"}, {Symbol: "H", Name: "load balancer gives up on an API server"}, {Symbol: "M", Name: "measuring margin"},
		{Symbol: "G", Name: "grace period of nodes"}, {Symbol: "N", Name: "monitor period of nodes"}, {Symbol: "A", Name: "interval of add-on managers"},
	}
}

// clusterSettings returns the settings of the run's clusters; none if they are not known.
func clusterSettings(run Run) (all []setting) {
	values := map[string][]time.Duration{}
	for _, c := range run.Clusters {
		for symbol, value := range c.Settings {
			if !slices.Contains(values[symbol], value) {
				values[symbol] = append(values[symbol], value)
			}
		}
	}
	names := settingNames()
	for _, symbol := range sortedKeys(values) {
		if !slices.ContainsFunc(names, func(s setting) bool { return s.Symbol == symbol }) {
			names = append(names, setting{Symbol: symbol})
		}
	}
	for _, s := range names {
		if len(values[s.Symbol]) == 0 {
			continue
		}
		slices.Sort(values[s.Symbol])
		var texts []string
		for _, v := range values[s.Symbol] {
			texts = append(texts, human(v))
		}
		s.Value = strings.Join(texts, " or ")
		all = append(all, s)
	}
	return all
}

func settingsText(run Run) string {
	var parts []string
	for _, s := range clusterSettings(run) {
		text := s.Symbol + " = " + s.Value
		if s.Name != "" {
			text += " (" + s.Name + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// tookText returns how long the run took; empty if that is not known.
func tookText(run Run) string {
	if took := run.Ended.Sub(run.Started); took > 0 {
		return human(took)
	}
	return ""
}
