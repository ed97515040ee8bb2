package selftest

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge"
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

// file is a name for the unit's record.
func (u Unit) file() string { return strings.NewReplacer(" ", "-", "/", "-").Replace(u.String()) }

// counts tells whether a result is one of the unit's.
func (u Unit) counts(r judge.Result) bool {
	return slices.Contains(u.Subjects, r.Judge) || slices.Contains(u.Subjects, r.Requirement)
}

// Batch is what is run on one cluster, one after another.
type Batch struct {
	Cluster string `json:"cluster"`
	Units   []Unit `json:"units"`
	// Once gives each unit a single try: what stays unclear is run again later (see Again).
	Once bool `json:"once,omitempty"`
}

// Plan returns what is to be run to show that these judges and requirements (all
// where none is named) are found broken where that is planted: the plants, and a
// healthy twin for each scenario that they use. What the proxied cluster has to do is
// spread over so many.
func Plan(subjects []string, parallel int) ([]Batch, error) {
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
	// First the healthy: they need the least of what comes before.
	for cluster, units := range twins {
		slices.SortFunc(units, func(a, b Unit) int { return cmp.Compare(a.Scenario, b.Scenario) })
		batches[cluster] = append(units, batches[cluster]...)
	}
	shared := batches[proxied]
	delete(batches, proxied)

	var work []Batch
	for kind, units := range batches {
		work = append(work, Batch{Cluster: kind, Units: units})
	}
	slices.SortFunc(work, func(a, b Batch) int { return cmp.Compare(a.Cluster, b.Cluster) })
	parts := make([]Batch, min(max(parallel, 1), len(shared)))
	for i, u := range shared {
		part := &parts[i%len(parts)]
		part.Cluster = proxied
		part.Units = append(part.Units, u)
	}
	return append(work, parts...), nil
}

// Again returns what is to be run once more, with nothing beside it: what stayed unclear
// while several clusters shared the machine.
func Again(outcomes []Outcome) []Batch {
	batches := map[string]*Batch{}
	for _, o := range outcomes {
		if !o.Unclear {
			continue
		}
		b := batches[o.Unit.Cluster]
		if b == nil {
			b = &Batch{Cluster: o.Unit.Cluster}
			batches[b.Cluster] = b
		}
		b.Units = append(b.Units, o.Unit)
	}
	var work []Batch
	for _, cluster := range slices.Sorted(maps.Keys(batches)) {
		work = append(work, *batches[cluster])
	}
	return work
}

// subjects returns all that something may be planted for: the judges, then the
// requirements that the catalogue's scenarios settle, in the catalogue's order.
func subjects() []Row {
	var all []Row
	for _, d := range judge.Docs() {
		all = append(all, Row{Judge: d.Name, Guarantee: d.Guarantee})
	}
	settled := map[string]bool{}
	for _, s := range scenarios.All() {
		for _, r := range s.Spec.Requirements {
			settled[r.ID] = true
		}
	}
	for _, r := range scenarios.Requirements() {
		if settled[r.ID] && r.Level != "INFO" {
			all = append(all, Row{Requirement: r.ID, Guarantee: r.Text})
		}
	}
	return all
}

// chosen checks the names of judges and requirements; * and ? are wild.
func chosen(names []string) (map[string]bool, error) {
	all := map[string]bool{}
	var known []string
	for _, s := range subjects() {
		all[s.Subject()] = len(names) == 0
		known = append(known, s.Subject())
	}
	for _, n := range names {
		found := false
		for _, k := range known {
			match, err := path.Match(n, k)
			if err != nil {
				return nil, fmt.Errorf("%q is no pattern: %w", n, err)
			}
			all[k], found = all[k] || match, found || match
		}
		if !found {
			return nil, fmt.Errorf("there is no judge and no settled requirement %q; there are: %s", n, strings.Join(known, ", "))
		}
	}
	return all, nil
}
