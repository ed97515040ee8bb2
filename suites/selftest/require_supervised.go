package selftest

import (
	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
)

// supervisedPlants are those about components that supervisors elect.
func supervisedPlants() []Plant {
	return []Plant{
		// Seen while the holder is cut off: both run at the same time. When it is back it may
		// act, or the component checks of every run may see it.
		{Name: "keeps-running", Violation: "a supervisor that leaves the scheduler running when it can no longer renew its lock",
			Cluster: careless, Twin: supervised, Scenario: "catalogue/supervised-components",
			Catches: both("HA-LE-011", "supervised", "that supervisors elect must")},
	}
}

// electedBy returns a cluster whose components are elected in one way, with these times.
func electedBy(how clusters.Election, times map[string]string) *clusters.Cluster {
	c := with(clusters.ExtraArgs{framework.ControllerManager: times, framework.Scheduler: times})
	c.Spec.Election = map[framework.Component]clusters.Election{framework.ControllerManager: how, framework.Scheduler: how}
	return c
}
