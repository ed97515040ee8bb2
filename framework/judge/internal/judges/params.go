package judges

import (
	"math"
	"slices"
	"strconv"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// flag are the values of a parameter that is true or false.
var flag = []string{"true", "false"}

func countParam(m *facts.Case, name string, def, least int) (int, *Finding) {
	n, err := strconv.Atoi(m.Param(name, strconv.Itoa(def)))
	if err == nil && n >= least {
		return n, nil
	}
	return 0, Inconclusive("the check cannot be judged: parameter %s = %q is not a number, %d or more", name, m.Check.Params[name], least).problem()
}

// count is countParam for a judge that is given the number.
func count(name string, def, least int) func(*facts.Case) (int, *Finding) {
	return func(m *facts.Case) (int, *Finding) { return countParam(m, name, def, least) }
}

// shareParam returns a parameter of the check that is above 0 and at most 1; 0.5 by default.
func shareParam(m *facts.Case, name string) (float64, *Finding) {
	share, err := strconv.ParseFloat(m.Param(name, "0.5"), 64)
	if err == nil && !math.IsNaN(share) && share > 0 && share <= 1 {
		return share, nil
	}
	return 0, Inconclusive("the check cannot be judged: parameter %s = %q is not a fraction, such as 0.5", name, m.Check.Params[name]).problem()
}

// probeKinds returns the kinds of probes that the check is about, those on new connections first.
func probeKinds(m *facts.Case) (kinds []facts.ProbeKind, problem *Finding) {
	for _, name := range text.SplitList(m.Param("kinds", facts.DefaultKinds)) {
		kind := record.ProbeKind(name)
		if !slices.Contains(record.ProbeKinds(), kind) {
			return nil, Inconclusive("the check cannot be judged: parameter kinds = %q, and no probe is of kind %q", m.Param("kinds", ""), name).problem()
		}
		kinds = append(kinds, facts.ProbeKind{Kind: kind})
	}
	if m.Param("connections", "") != "new" {
		for _, k := range slices.Clone(kinds) {
			kinds = append(kinds, facts.ProbeKind{Kind: k.Kind, Reused: true})
		}
	}
	return kinds, nil
}
