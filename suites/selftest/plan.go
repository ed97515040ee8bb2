package selftest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// Unit is one run of one scenario on one cluster.
type Unit struct {
	// Plant is what is planted, empty for a healthy twin.
	Plant    string   `json:"plant,omitempty"`
	Scenario string   `json:"scenario"`
	Judges   []string `json:"judges"` // whose verdicts count
}

func (u Unit) String() string {
	if u.Plant == "" {
		return "healthy " + u.Scenario
	}
	return u.Plant
}

// file is a name for the unit's record.
func (u Unit) file() string { return strings.ReplaceAll(u.String(), " ", "-") }

// Batch is what is run on one cluster, one after another.
type Batch struct {
	Cluster string `json:"cluster"`
	Units   []Unit `json:"units"`
}

// Plan returns what is to be run to show that these judges (all where none is
// named) find what is planted: the plants, and a healthy twin for each scenario
// that they use. What the proxied cluster has to do is spread over so many.
func Plan(judges []string, parallel int) ([]Batch, error) {
	wanted, err := chosen(judges)
	if err != nil {
		return nil, err
	}
	healthy := map[string][]string{}
	batches := map[string][]Unit{}
	for _, p := range Plants() {
		u := Unit{Plant: p.Name, Scenario: p.Scenario}
		for _, c := range p.Catches {
			if !wanted[c.Judge] {
				continue
			}
			u.Judges = append(u.Judges, c.Judge)
			if !slices.Contains(healthy[p.Scenario], c.Judge) {
				healthy[p.Scenario] = append(healthy[p.Scenario], c.Judge)
			}
		}
		if len(u.Judges) > 0 {
			batches[p.Cluster] = append(batches[p.Cluster], u)
		}
	}
	var twins []Unit
	for scenario, judges := range healthy {
		twins = append(twins, Unit{Scenario: scenario, Judges: judges})
	}
	slices.SortFunc(twins, func(a, b Unit) int { return cmp.Compare(a.Scenario, b.Scenario) })
	// First the healthy: they need the least of what comes before.
	shared := append(twins, batches[proxied]...)
	delete(batches, proxied)

	var work []Batch
	for kind, units := range batches {
		work = append(work, Batch{kind, units})
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

// chosen checks the names of judges.
func chosen(names []string) (map[string]bool, error) {
	all := map[string]bool{}
	var known []string
	for _, d := range judge.Docs() {
		all[d.Name] = len(names) == 0
		known = append(known, d.Name)
	}
	for _, n := range names {
		if _, ok := all[n]; !ok {
			return nil, fmt.Errorf("there is no judge %q; there are: %s", n, strings.Join(known, ", "))
		}
		all[n] = true
	}
	return all, nil
}
