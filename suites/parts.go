package suites

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// Part is what is run on one cluster, one scenario after another.
type Part struct {
	// Name is unique among the parts of a run: cluster-1, cluster-2 and so on.
	Name    string            `json:"name"`
	Cluster *clusters.Cluster `json:"cluster"`
	// Scenarios are the names of what is run on it, in that order.
	Scenarios []string `json:"scenarios"`
}

// Parts spreads scenarios over clusters: those that ask for the same share one. The
// first part is that of the first scenario; scenarios that do not apply to the cluster
// that they ask for are in none. An error names the scenario that asks for what no
// cluster can have.
func Parts(run *clusters.Cluster, all []*scenarios.Scenario) ([]Part, error) {
	var parts []Part
	byCluster := map[string]int{} // index of the part, by what its cluster is like
	for _, s := range all {
		c, err := Cluster(run, s.Spec.Cluster)
		if err != nil {
			return nil, fmt.Errorf("scenario %s asks for a cluster that there cannot be: %w", s.Metadata.Name, err)
		}
		if s.NotFor(len(c.Spec.Nodes)) != "" {
			continue
		}
		like, err := json.Marshal(c.Spec)
		if err != nil {
			return nil, fmt.Errorf("scenario %s: telling clusters apart: %w", s.Metadata.Name, err)
		}
		i, ok := byCluster[string(like)]
		if !ok {
			i = len(parts)
			byCluster[string(like)] = i
			parts = append(parts, Part{Name: fmt.Sprintf("cluster-%d", i+1), Cluster: c})
		}
		parts[i].Scenarios = append(parts[i].Scenarios, s.Metadata.Name)
	}
	return parts, nil
}
