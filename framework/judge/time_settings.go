package judge

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func timeSettings() definition {
	return definition{Doc{
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
}

// timeSetting is one that has a ceiling.
type timeSetting struct {
	what   string
	value  time.Duration
	symbol string
}

func (t timeSetting) String() string { return t.what + " " + short(t.value) }

func judgeTimeSettings(m *matter) finding {
	names := map[string]string{"E": "etcd's election timeout", "T": "time to live of API servers' addresses", "H": "the load balancer's detection time"}
	ceilings := map[string]time.Duration{}
	var settings []timeSetting
	for _, symbol := range []string{"E", "L", "T", "H"} {
		text := m.param(symbol, "")
		if text == "" || symbol == "H" && !m.balanced() {
			continue
		}
		ceiling, err := time.ParseDuration(text)
		if err != nil || ceiling <= 0 {
			return inconclusive("the check cannot be judged: parameter %s = %q is not a duration", symbol, text)
		}
		ceilings[symbol] = ceiling
		if symbol == "L" {
			settings = append(settings, m.leaseDurations()...)
			continue
		}
		settings = append(settings, timeSetting{names[symbol], m.run.Meta.Settings[symbol], symbol})
	}
	var over, within []string
	for _, s := range settings {
		switch {
		case s.value <= 0:
			return inconclusive("the record does not tell %s", s.what)
		case s.value > ceilings[s.symbol]:
			over = append(over, fmt.Sprintf("%s is more than %s", s, short(ceilings[s.symbol])))
		default:
			within = append(within, fmt.Sprintf("%s (%s at most)", s, short(ceilings[s.symbol])))
		}
	}
	switch {
	case len(settings) == 0:
		return inconclusive("the check names no ceiling")
	case len(over) > 0:
		return failed("The cluster's time settings must be within what users of a default cluster may expect: %s.", and(over)).
			counted("%d of %d settings", len(within), len(settings)).shows(within...)
	}
	return passed("All %d time settings are within their ceilings: %s.", len(settings), and(within)).
		counted("%d of %d settings", len(within), len(settings))
}

// leaseDurations returns the lease duration of each elected component: the longest of its
// setting and of what a holder on a node wrote before the first fault.
func (m *matter) leaseDurations() (all []timeSetting) {
	longest := map[string]time.Duration{}
	for component, own := range m.run.Meta.Elections {
		longest[component] = own["L"]
	}
	if len(longest) == 0 {
		longest["elected components"] = m.run.Meta.Settings["L"]
	}
	from, to := m.quiet()
	for _, l := range m.run.Leases {
		if l.At >= from && l.At <= to && m.isNode(holderNode(l.V)) {
			longest[l.V.Name] = max(longest[l.V.Name], leaseDuration(l.V))
		}
	}
	for _, component := range slices.Sorted(maps.Keys(longest)) {
		all = append(all, timeSetting{"the lease duration of " + component, longest[component], "L"})
	}
	return all
}

func leaseDuration(l record.Lease) time.Duration { return time.Duration(l.Duration) * time.Second }
