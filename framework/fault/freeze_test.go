package fault

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestFreeze(t *testing.T) {
	for name, already := range map[string]func(*fakeProcess){
		"frozen":      func(p *fakeProcess) { p.State = "T" },
		"not running": func(p *fakeProcess) { p.PID, p.State = 0, "" },
	} {
		t.Run(name, func(t *testing.T) {
			proofs{
				fault:   Freeze,
				target:  component("node-3", framework.APIServer),
				broken:  func(c *fakeCluster) bool { return state(c, 2, framework.APIServer).State == "T" },
				already: func(c *fakeCluster) { already(c.nodes[2].processes[framework.APIServer]) },
			}.run(t)
		})
	}
}
