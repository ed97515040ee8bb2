package run

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// Part is what is run on one cluster, one scenario after another, and what came of it.
// Times are in nanoseconds.
type Part struct {
	// Name is unique among the parts of a run: cluster-1, cluster-2 and so on.
	Name    string            `json:"name"`
	Cluster *clusters.Cluster `json:"cluster"`
	// Scenarios are the names of what is run on it, in that order.
	Scenarios []string `json:"scenarios"`
	// Expected is about how long it takes, the cluster's creation included.
	Expected time.Duration `json:"expected"`
	// Problem is why it stopped early, or what could not be done; empty if there was no problem.
	Problem string `json:"problem,omitempty"`
	// Took is the time from the start of its worker to the end; Made is what making
	// its cluster, or clusters, took of that.
	Took time.Duration `json:"took,omitempty"`
	Made time.Duration `json:"made,omitempty"`
	// Judging is how long it took to judge each scenario.
	Judging map[string]time.Duration `json:"judging,omitempty"`

	refused bool // its cluster must not be broken; see clusters.ErrUnsafe
	began   bool // a scenario was run on it
	earlier bool // it is of the run before it was resumed
}

// Divide spreads scenarios over clusters, up to parallel of which run side by side. Creating and
// deleting a cluster takes about creation. Scenarios with the same requirements share a cluster;
// if it ends the run well earlier, they are spread over several. The parts are in the order in
// which they start, the longest first; in each, scenarios are in the given order. Scenarios that
// do not apply to the cluster that they ask for are in no part. An error names the scenario that
// asks for an impossible cluster.
func Divide(run *clusters.Cluster, all []*scenarios.Scenario, parallel int, creation time.Duration) ([]Part, error) {
	groups, err := groupsOf(run, all)
	if err != nil {
		return nil, err
	}
	parts := divide(groups, max(parallel, 1), creation)
	for i := range parts {
		parts[i].Name = fmt.Sprintf("cluster-%d", i+1)
	}
	return parts, nil
}

// Ends returns when each part's last scenario ends, if up to parallel parts run at a time and
// start in order.
func Ends(parts []Part, parallel int) []time.Duration {
	free := make([]time.Duration, max(parallel, 1))
	ends := make([]time.Duration, len(parts))
	for i, p := range parts {
		first := slices.Index(free, slices.Min(free))
		free[first] += p.Expected
		ends[i] = free[first]
	}
	return ends
}

// group is a set of scenarios that can share a cluster.
type group struct {
	cluster *clusters.Cluster
	items   []item
}

// item is one scenario in a group.
type item struct {
	name     string
	expected time.Duration
}

// groupsOf groups the scenarios by the cluster that they ask for, in the order of the first
// scenario of each group.
func groupsOf(run *clusters.Cluster, all []*scenarios.Scenario) ([]group, error) {
	var groups []group
	byCluster := map[string]int{} // index of the group, by its cluster
	named := map[string]bool{}
	for _, s := range all {
		if named[s.Metadata.Name] {
			return nil, fmt.Errorf("two scenarios are named %s: their records would have the same directory (a repeated scenario's name is cut so that the victim's number fits)", s.Metadata.Name)
		}
		named[s.Metadata.Name] = true
		c, err := Cluster(run, s.Spec.Cluster)
		if err != nil {
			return nil, fmt.Errorf("scenario %s asks for a cluster that cannot exist: %w", s.Metadata.Name, err)
		}
		settings, err := clusters.Settings(c)
		if err != nil {
			return nil, fmt.Errorf("scenario %s: %w", s.Metadata.Name, err)
		}
		if s.NotFor(c.Size()) != "" {
			continue
		}
		var nodes []fault.Place
		for _, n := range c.Nodes() {
			nodes = append(nodes, fault.Place{Name: n.Name, Zone: n.Zone})
		}
		if err := s.Fits(nodes); err != nil {
			return nil, err
		}
		like, err := json.Marshal(c.Spec)
		if err != nil {
			return nil, fmt.Errorf("scenario %s: failed to encode its cluster: %w", s.Metadata.Name, err)
		}
		// A cluster whose nodes are not as they were is not the one that the next scenario asks for.
		own := s.Spec.Cluster.Own || !s.Experiment().KeepsNodes()
		i, ok := byCluster[string(like)]
		if !ok || own {
			i = len(groups)
			groups = append(groups, group{cluster: c})
		}
		if !own {
			byCluster[string(like)] = i
		}
		groups[i].items = append(groups[i].items, item{s.Metadata.Name, s.Expected(settings)})
	}
	return groups, nil
}

// divide makes parts of groups. Starting with one part per group, it keeps dividing the longest
// one that can be divided. It returns the division that ends earliest, by more than the time that
// its additional clusters take.
func divide(groups []group, parallel int, creation time.Duration) []Part {
	into := make([]int, len(groups)) // number of parts of each group
	for i := range into {
		into[i] = 1
	}
	best, groupOf := partsOf(groups, into, creation)
	if parallel == 1 {
		return best
	}
	bestEnd := end(best, parallel)
	for {
		longest := slices.IndexFunc(groupOf, func(i int) bool { return into[i] < min(len(groups[i].items), 2*parallel) })
		if longest < 0 {
			return best
		}
		into[groupOf[longest]]++
		var parts []Part
		parts, groupOf = partsOf(groups, into, creation)
		more := time.Duration(len(parts) - len(best))
		if end := end(parts, parallel); end+more*creation < bestEnd {
			best, bestEnd = parts, end
		}
	}
}

func end(parts []Part, parallel int) time.Duration {
	return slices.Max(append(Ends(parts, parallel), 0))
}

// partsOf divides each group into that many parts, and returns them longest first, with the index
// of each part's group.
func partsOf(groups []group, into []int, creation time.Duration) (parts []Part, groupOf []int) {
	type origin struct {
		Part
		group int
	}
	var all []origin
	for i, g := range groups {
		for _, items := range spread(g.items, into[i]) {
			p := Part{Cluster: g.cluster, Expected: creation}
			for _, one := range items {
				p.Scenarios = append(p.Scenarios, one.name)
				p.Expected += one.expected
			}
			all = append(all, origin{p, i})
		}
	}
	slices.SortStableFunc(all, func(a, b origin) int { return cmp.Compare(b.Expected, a.Expected) })
	for _, o := range all {
		parts = append(parts, o.Part)
		groupOf = append(groupOf, o.group)
	}
	return parts, groupOf
}

// spread divides items into n parts of about the same length: the longest item first, each to the
// shortest part. The items of a part stay in their order.
func spread(items []item, n int) [][]item {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(items[b].expected, items[a].expected) })
	totals := make([]time.Duration, n)
	to := make([]int, len(items)) // the part of each item
	for _, i := range order {
		to[i] = slices.Index(totals, slices.Min(totals))
		totals[to[i]] += items[i].expected
	}
	parts := make([][]item, n)
	for i, one := range items {
		parts[to[i]] = append(parts[to[i]], one)
	}
	return parts
}
