package selftest

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/nearest"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// Unit is one run of one scenario on one cluster.
type Unit struct {
	// Plant is what is planted, empty for a healthy twin.
	Plant string `json:"plant,omitempty"`
	// Cluster is the kind of the cluster.
	Cluster  string `json:"cluster"`
	Scenario string `json:"scenario"`
	// Subjects are the judges and requirements whose verdicts count.
	Subjects []string `json:"subjects"`
}

func (u Unit) String() string {
	if u.Plant == "" {
		return "healthy " + u.Scenario
	}
	return u.Plant
}

// file returns a file name for the unit's record.
func (u Unit) file() string { return strings.NewReplacer(" ", "-", "/", "-").Replace(u.String()) }

// covers reports whether an outcome of the unit also counts for v.
func (u Unit) covers(v Unit) bool {
	return u.Plant == v.Plant && u.Cluster == v.Cluster && u.Scenario == v.Scenario &&
		!slices.ContainsFunc(v.Subjects, func(s string) bool { return !slices.Contains(u.Subjects, s) })
}

// counts reports whether a result counts for the unit.
func (u Unit) counts(r judge.Result) bool {
	return slices.Contains(u.Subjects, r.Judge) || slices.Contains(u.Subjects, r.Requirement)
}

// Batch is a list of units to run on one cluster, one after another.
type Batch struct {
	Cluster string `json:"cluster"`
	Units   []Unit `json:"units"`
	// Once gives each unit a single try: an unclear unit, or a plant with an unexpected outcome,
	// runs again later.
	Once bool `json:"once,omitempty"`
}

// Plan returns the work that shows that these judges and requirements (all if none is named) find
// planted violations: the plants, and a healthy twin for each scenario that they use, by kind of
// cluster.
func Plan(subjects []string) ([]Batch, error) {
	wanted, err := chosen(subjects)
	if err != nil {
		return nil, err
	}
	type twin struct{ cluster, scenario string }
	healthy := map[twin][]string{}
	batches := map[string][]Unit{}
	for _, p := range Plants() {
		u := Unit{Plant: p.Name, Cluster: p.Cluster, Scenario: p.Scenario}
		of := twin{p.twin(), p.Scenario}
		for _, c := range p.Catches {
			if !wanted[c.subject()] {
				continue
			}
			u.Subjects = append(u.Subjects, c.subject())
			if !slices.Contains(healthy[of], c.subject()) {
				healthy[of] = append(healthy[of], c.subject())
			}
		}
		if len(u.Subjects) > 0 {
			batches[p.Cluster] = append(batches[p.Cluster], u)
		}
	}
	twins := map[string][]Unit{}
	for of, subjects := range healthy {
		twins[of.cluster] = append(twins[of.cluster], Unit{Cluster: of.cluster, Scenario: of.scenario, Subjects: subjects})
	}
	// The healthy twins first: they depend least on earlier runs.
	for cluster, units := range twins {
		slices.SortFunc(units, func(a, b Unit) int { return cmp.Compare(a.Scenario, b.Scenario) })
		batches[cluster] = append(units, batches[cluster]...)
	}
	var work []Batch
	for _, cluster := range slices.Sorted(maps.Keys(batches)) {
		work = append(work, Batch{Cluster: cluster, Units: batches[cluster]})
	}
	return work, nil
}

// Left returns the part of the work without a settled outcome: units that did not run, or stayed
// unclear.
func Left(work []Batch, outcomes []Outcome) []Batch {
	var left []Batch
	for _, b := range work {
		units := slices.DeleteFunc(slices.Clone(b.Units), func(u Unit) bool {
			return slices.ContainsFunc(outcomes, func(o Outcome) bool { return !o.Unclear && o.Unit.covers(u) })
		})
		if len(units) > 0 {
			left = append(left, Batch{Cluster: b.Cluster, Units: units})
		}
	}
	return left
}

// Without returns the outcomes of other units.
func Without(outcomes []Outcome, u Unit) []Outcome {
	return slices.DeleteFunc(outcomes, func(o Outcome) bool { return u.covers(o.Unit) })
}

// Shared returns the work for clusters that share the machine. Each unit is tried once, and the
// work of the proxied cluster is spread over parallel clusters. On a busy machine, a healthy twin
// that passes and a plant that is caught count; any other outcome of a plant proves nothing.
func Shared(work []Batch, parallel int) []Batch {
	var shared []Batch
	for _, b := range work {
		parts := 1
		if b.Cluster == proxied {
			parts = min(parallel, len(b.Units))
		}
		for part := range parts {
			one := Batch{Cluster: b.Cluster, Once: true}
			for i := part; i < len(b.Units); i += parts {
				one.Units = append(one.Units, b.Units[i])
			}
			shared = append(shared, one)
		}
	}
	// The longest first, so that the last one is short.
	slices.SortStableFunc(shared, func(a, b Batch) int { return cmp.Compare(len(b.Units), len(a.Units)) })
	return shared
}

// subjects returns everything that a plant may exist for: the judges, then the requirements that
// the catalogue's scenarios name, in the catalogue's order. A plant for a judge of every run is
// also one for the invariant that the judge settles.
func subjects() []Row {
	var all []Row
	for _, d := range judge.Docs() {
		all = append(all, Row{Judge: d.Name, Requirement: d.Invariant, Guarantee: d.Guarantee})
	}
	for _, r := range scenarios.Requirements() {
		if !r.Invariant() && r.Level != "INFO" && len(scenarios.SettledBy(r)) > 0 {
			all = append(all, Row{Requirement: r.ID, Guarantee: r.Text})
		}
	}
	return all
}

// chosen validates the names of judges and requirements; * and ? are wildcards. The name of an
// invariant selects all judges that settle it.
func chosen(names []string) (map[string]bool, error) {
	all := map[string]bool{}
	var known []string
	rows := subjects()
	for _, s := range rows {
		all[s.Subject()] = len(names) == 0
		known = append(known, s.Subject())
	}
	for _, n := range names {
		found := false
		for _, s := range rows {
			match, err := path.Match(n, s.Subject())
			if err != nil {
				return nil, fmt.Errorf("%q is not a pattern: %w", n, err)
			}
			settles, _ := path.Match(n, s.Requirement)
			match = match || settles
			all[s.Subject()], found = all[s.Subject()] || match, found || match
		}
		if found {
			continue
		}
		if _, ok := scenarios.RequirementByID(n); ok {
			return nil, fmt.Errorf("%s has no planted violation; see holdfast selftest --list", n)
		}
		return nil, fmt.Errorf("unknown judge or requirement %q%s", n, cmp.Or(nearest.Meant(known, n), "; see holdfast selftest --list"))
	}
	return all, nil
}
