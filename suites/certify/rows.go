package certify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/nearest"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// Turns is the minimum number of runs of each scenario; a cluster with more nodes needs one run
// per node.
const Turns = 3

// Profile is the name of the conformance profile and of its file.
const Profile = "HAConformance-1.37"

// required are the rows that the conformance profile requires; see docs/conformance.md.
var required = []string{"HA-CL-003", "HA-CL-005", "HA-EP-003", "HA-EP-006", "HA-LE-002", "HA-QR-002",
	"HA-QR-005", "HA-QR-009", "HA-RC-003", "HA-RC-004", "HA-SEC-001", "HA-UP-001"}

// Required returns the rows that the conformance profile requires, in order.
func Required() []string { return slices.Clone(required) }

// The profiles of scenarios for certificates: those with faults, and the one without, for control
// planes whose nodes only their operator can reach.
const (
	Breaking  = "full"
	Observing = "observe"
)

// ProfileOf returns the profile that the plan of a certification uses.
func ProfileOf(p *run.Plan) string {
	if p.Profile == Observing {
		return Observing
	}
	return Breaking
}

// Must returns all rows of level MUST that a scenario of the catalogue settles, in order.
func Must() []string { return settled(Breaking, "MUST") }

// Observed returns the rows that a scenario without a fault settles, in order.
func Observed() []string { return settled(Observing, "MUST", "SHOULD") }

func settled(profile string, levels ...string) (ids []string) {
	for _, r := range scenarios.Requirements() {
		if slices.Contains(levels, r.Level) && len(settling(r.ID, profile)) > 0 {
			ids = append(ids, r.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// Select returns the rows that a user selects (must, conformance, observed, or IDs separated by
// commas) and the profile of the scenarios that settle them.
func Select(which string) (rows []string, profile string, err error) {
	switch which {
	case "must":
		return Must(), Breaking, nil
	case "conformance":
		return Required(), Breaking, nil
	case "observed":
		return Observed(), Observing, nil
	}
	var ids []string
	known := framework.Names(scenarios.Requirements(), func(r scenarios.Requirement) string { return r.ID })
	for id := range strings.SplitSeq(which, ",") {
		id = strings.TrimSpace(id)
		switch {
		case slices.Contains([]string{"must", "conformance", "observed"}, id):
			return nil, "", fmt.Errorf("%s cannot be combined with IDs", id)
		case !slices.Contains(known, id):
			return nil, "", fmt.Errorf("%q is not a requirement of the catalogue: want must, conformance, observed, or IDs such as %s", id, strings.Join(nearest.Names(known, id, 3), ", "))
		case len(settling(id, Breaking)) == 0:
			return nil, "", fmt.Errorf("no scenario settles %s yet", id)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids), Breaking, nil
}

// Class returns the class of rows settled by scenarios of a profile: must, conformance, observed,
// or partial.
func Class(rows []string, profile string) string {
	has := func(all []string) bool {
		return !slices.ContainsFunc(all, func(id string) bool { return !slices.Contains(rows, id) })
	}
	switch {
	case profile == Observing:
		return "observed"
	case has(Must()):
		return "must"
	case has(required):
		return "conformance"
	}
	return "partial"
}

// undisturbed is the scenario without a fault, which judges all invariants.
const undisturbed = "undisturbed"

// settling returns the scenarios of a profile that settle a row; for an invariant, which all of
// them settle, the one without a fault.
func settling(id, profile string) (all []*scenarios.Scenario) {
	r, ok := scenarios.RequirementByID(id)
	if !ok {
		return nil
	}
	for _, s := range scenarios.SettledBy(r) {
		if s.In(profile) && (!r.Invariant() || s.Metadata.Name == undisturbed) {
			all = append(all, s)
		}
	}
	return all
}

// Scenarios returns the scenarios of a profile that settle one of the rows, in the order of
// the catalogue.
func Scenarios(rows []string, profile string) (chosen []*scenarios.Scenario) {
	settle := map[string]bool{}
	for _, id := range rows {
		for _, s := range settling(id, profile) {
			settle[s.Metadata.Name] = true
		}
	}
	for _, s := range scenarios.All() {
		if settle[s.Metadata.Name] {
			chosen = append(chosen, s)
		}
	}
	return chosen
}
