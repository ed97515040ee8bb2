package judges

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
)

var timeSettings = Definition{Doc{
	Name:      "time-settings",
	Guarantee: "The cluster's time settings, by which every other bound is computed, are within absolute ceilings: those of its description, and the duration of the leases that its elected components hold.",
	Source:    "Bugs in the field: bounds that follow the settings have no ceiling",
	Params: map[string]string{
		"E": "ceiling for etcd's election timeout, a duration (default: none)",
		"L": "ceiling for the lease duration of each elected component (default: none)",
		"T": "ceiling for the time to live of an API server's address (default: none)",
		"H": "ceiling for the load balancer's detection time (default: none)",
	},
}, judgeTimeSettings}

// timeSetting is a setting with a ceiling.
type timeSetting struct {
	what   string
	value  time.Duration
	symbol string
}

func (t timeSetting) String() string { return t.what + " " + text.Short(t.value) }

func judgeTimeSettings(m *facts.Case) Finding {
	names := map[string]string{"E": "etcd's election timeout", "T": "time to live of API servers' addresses", "H": "the load balancer's detection time"}
	ceilings := map[string]time.Duration{}
	var settings []timeSetting
	for _, symbol := range []string{"E", "L", "T", "H"} {
		text := m.Param(symbol, "")
		if text == "" || symbol == "H" && !m.Balanced() {
			continue
		}
		ceiling, err := time.ParseDuration(text)
		if err != nil || ceiling <= 0 {
			return Inconclusive("the check cannot be judged: parameter %s = %q is not a duration", symbol, text)
		}
		ceilings[symbol] = ceiling
		if symbol == "L" {
			settings = append(settings, leaseDurations(m)...)
			continue
		}
		settings = append(settings, timeSetting{names[symbol], m.Run.Meta.Settings[symbol], symbol})
	}
	var over, within, unknown []string
	for _, s := range settings {
		switch {
		case slices.Contains(m.Run.Meta.Assumed, s.symbol):
			unknown = append(unknown, s.what)
		case s.value <= 0:
			return Inconclusive("the record does not show %s", s.what)
		case s.value > ceilings[s.symbol]:
			over = append(over, fmt.Sprintf("%s is more than %s", s, text.Short(ceilings[s.symbol])))
		default:
			within = append(within, fmt.Sprintf("%s (%s at most)", s, text.Short(ceilings[s.symbol])))
		}
	}
	switch {
	case len(settings) == 0:
		return Inconclusive("the check names no ceiling")
	case len(over) > 0:
		return Failed("The cluster's time settings must be within what users of a default cluster may expect: %s.", text.And(over)).
			counted("%d of %d settings", len(within), len(settings)).Shows(within...)
	case len(unknown) > 0:
		return notApplicable("The requirement cannot be tested here: nothing shows %s.%s", text.And(unknown), others(within)).counted("%d of %d settings", len(within), len(settings))
	}
	return Passed("All %d time settings are within their ceilings: %s.", len(settings), text.And(within)).
		counted("%d of %d settings", len(within), len(settings))
}

func others(within []string) string {
	if len(within) == 0 {
		return ""
	}
	return " Within their ceilings: " + text.And(within) + "."
}

// leaseDurations returns the lease duration of each elected component: the longest of its
// setting and of what a holder on a node wrote before the first fault.
func leaseDurations(m *facts.Case) (all []timeSetting) {
	longest := map[string]time.Duration{}
	for component, own := range m.Run.Meta.Elections {
		longest[component] = own["L"]
	}
	if len(longest) == 0 {
		longest["elected components"] = m.Run.Meta.Settings["L"]
	}
	from, to := m.Quiet()
	for _, l := range m.Run.Leases {
		if l.At >= from && l.At <= to && m.IsNode(facts.HolderNode(l.V)) {
			longest[l.V.Name] = max(longest[l.V.Name], leaseDuration(l.V))
		}
	}
	for _, component := range slices.Sorted(maps.Keys(longest)) {
		all = append(all, timeSetting{"the lease duration of " + component, longest[component], "L"})
	}
	return all
}
