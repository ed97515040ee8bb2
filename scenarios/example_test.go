package scenarios_test

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// quake stands for a program's own fault.
var quake = &fault.Fault{Name: "quake", Params: []fault.Param{{Name: "magnitude", Doc: "from 1 to 9"}}}

const shaken = `
apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: shaken}
spec:
  timeline:
  - inject: {fault: quake, target: zone/a, as: quake, params: {magnitude: 7}}
  - wait: 2E + M
  - heal: quake
  requirements:
  - {id: OUR-001, judge: unshaken, fault: quake}
  - {id: HA-QR-001, judge: cross-read}
`

// A file may name custom faults and judges in addition to the built-in ones. Load reads it from
// disk.
func ExampleParse() {
	unshaken := judge.Judge{Doc: judge.Doc{Name: "unshaken", NeedsFault: true}}
	scenario, err := scenarios.Parse("shaken.yaml", []byte(shaken), scenarios.WithFaults(quake), scenarios.WithJudges(unshaken))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, check := range scenario.Experiment().Checks {
		fmt.Println(check.Requirement, check.Judge)
	}

	_, err = scenarios.Parse("shaken.yaml", []byte(shaken))
	fmt.Println(err != nil)
	// Output:
	// OUR-001 unshaken
	// HA-QR-001 cross-read
	// true
}
