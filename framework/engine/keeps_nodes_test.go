package engine

import "testing"

func TestKeepsNodes(t *testing.T) {
	step := func(name, id, node string) Step { return Step{Action: &Action{Name: name, ID: id, Node: node}} }
	add := func(id string) Step { return step("add-node", id, "") }
	for name, test := range map[string]struct {
		steps []Step
		want  bool
	}{
		"no change":                 {[]Step{{Wait: "1s"}, step("ready", "", ""), {Inject: &Inject{Fault: "kill", Target: "etcd/1", ID: "k"}}}, true},
		"added":                     {[]Step{add("a")}, false},
		"added and removed":         {[]Step{add("a"), step("remove-node", "", "a")}, true},
		"by its target":             {[]Step{add("a"), step("remove-node", "r", "node/a")}, true},
		"the last one":              {[]Step{add("a"), add("b"), step("remove-node", "", ""), step("remove-node", "", "a")}, true},
		"one is left":               {[]Step{add("a"), add("b"), step("remove-node", "", "a")}, false},
		"another is removed":        {[]Step{add("a"), step("remove-node", "", "follower")}, false},
		"removed first":             {[]Step{step("remove-node", "", "2"), add("a")}, false},
		"nothing to remove":         {[]Step{step("remove-node", "", "")}, false},
		"lost and replaced":         {[]Step{add("a"), step("lose-node", "l", "a"), add("b"), step("remove-node", "", "b")}, true},
		"two lost at the same time": {[]Step{add("a"), add("b"), step("lose-node", "", "a, b")}, true},
		"lost with another one":     {[]Step{add("a"), step("lose-node", "", "a, 3")}, false},
		"replaced as it was":        {[]Step{step("lose-node", "l", "follower"), step("replace-node", "again", "l")}, false},
		"interrupted":               {[]Step{{Action: &Action{Name: "add-node", ID: "a", Interrupt: 2}}}, true},
		"upgraded":                  {[]Step{{Action: &Action{Name: "upgrade", Node: "1", To: "v1.37.1"}}}, false},
		"rotated":                   {[]Step{{Action: &Action{Name: "rotate-certificates", Node: "1"}}}, false},
		"an added one upgraded":     {[]Step{add("a"), {Action: &Action{Name: "upgrade", Node: "a", To: "v1.37.1"}}, step("remove-node", "", "a")}, false},
	} {
		if got := (Experiment{Timeline: test.steps}).KeepsNodes(); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
