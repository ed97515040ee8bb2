package suites

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// slow is the expected duration from which a scenario has the label of that name.
const slow = 90 * time.Second

// labels returns the labels of a scenario's spec: its profiles, or "own" for a scenario that is
// not in the catalogue; ID, area and level of each requirement, and ID and area of the invariants,
// which every scenario settles; fault-NAME for each fault;
// needs-ABILITY, needs-BALANCER, needs-fuse and needs-N-nodes; disruptive if it changes the
// cluster; slow if it takes 90 s or more.
func (s *suite) labels(one *scenarios.Scenario) ginkgo.Labels {
	labels := ginkgo.Labels(slices.Clone(one.Spec.Profiles))
	add := func(l string) {
		if l != "" && !slices.Contains(labels, l) {
			labels = append(labels, l)
		}
	}
	if !slices.ContainsFunc(scenarios.All(), func(o *scenarios.Scenario) bool { return o.Metadata.Name == cmp.Or(one.Of, one.Metadata.Name) }) {
		add(own)
	}
	for _, r := range one.Spec.Requirements {
		add(r.ID)
	}
	for _, r := range scenarios.Requirements() {
		switch {
		case slices.Contains(labels, r.ID):
			add(r.Level)
			add(r.Area)
		case r.Invariant():
			add(r.ID)
			add(r.Area)
		}
	}
	for _, step := range one.Spec.Timeline {
		switch {
		case step.Inject != nil:
			add("disruptive")
			add("fault-" + step.Inject.Fault)
			if f, err := fault.Find(step.Inject.Fault, s.options.Faults...); err == nil {
				for _, n := range f.Needs {
					// Only some targets or parameters need others.
					if ability, rest, _ := strings.Cut(n, " "); rest == "" || strings.HasPrefix(ability, "Disk") {
						add("needs-" + ability)
					}
				}
			}
		case step.Action != nil && engine.ChangesNodes(step.Action.Name):
			add("disruptive")
		}
	}
	wants := one.Spec.Cluster
	if wants.LoadBalancer != "" {
		add("needs-" + wants.LoadBalancer)
	}
	if wants.Disk != "" && wants.Disk != string(clusters.DiskNone) {
		add("needs-" + wants.Disk)
	}
	if one.Spec.MinNodes > 1 {
		add(fmt.Sprintf("needs-%d-nodes", one.Spec.MinNodes))
	}
	if c, err := run.Cluster(s.plan.Cluster, wants); err == nil {
		if settings, err := clusters.Settings(c); err == nil && one.Expected(settings) >= slow {
			add("slow")
		}
	}
	return labels
}
