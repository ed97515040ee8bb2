package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestStop(t *testing.T) {
	proofs{
		fault:   Stop,
		target:  component("node-1", framework.APIServer),
		broken:  func(c *fakeCluster) bool { return state(c, 0, framework.APIServer).PID == 0 },
		already: func(c *fakeCluster) { c.nodes[0].processes[framework.APIServer].PID = 0 },
	}.run(t)
}
