package engine_test

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// quake is an example of a program's own fault.
var quake = &fault.Fault{Name: "quake", Params: []fault.Param{{Name: "magnitude", Doc: "from 1 to 9"}}}

// An experiment names faults and judges; those of one's own are in the options.
func ExampleExperiment_Validate() {
	experiment := engine.Experiment{
		Name: "shaken",
		Timeline: []engine.Step{
			{Inject: &engine.Inject{Fault: "quake", Target: "zone/a", ID: "quake", Params: map[string]string{"depth": "3"}}},
			{Wait: "2E + M"},
			{Heal: "quake"},
		},
		Checks: []record.Check{{Requirement: "OUR-001", Level: "MUST", Judge: "unshaken", Fault: "quake"}},
	}
	options := engine.Options{
		Faults: []*fault.Fault{quake},
		Judges: []judge.Judge{{Doc: judge.Doc{Name: "unshaken", NeedsBound: true}}},
	}
	for _, problem := range experiment.Validate(options) {
		fmt.Println(problem)
	}
	// Output:
	// timeline[0].inject.params.depth: fault quake has no such parameter: it accepts magnitude
	// requirements[0].bound: judge unshaken needs one, such as 2E + M
}
