package judge

import (
	"strings"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// A podLife is what is known of a pod that stands alone.
type podLife struct {
	name            string
	called, created record.Nanos // its creation, acknowledged
	bound           record.Nanos // seen with a node; 0 for never
	node            string
	seen            bool
	gone            record.Nanos
	bindings        []string // what the audit log has of them
	moved, movedAt  string   // to which other node, and when
}

// podLives returns the lives of all pods that stand alone and whose creation was
// acknowledged, in the order of that.
func podLives(run *record.Run) []*podLife {
	byName := map[string]*podLife{}
	var all []*podLife
	for i := range run.Ops {
		op := &run.Ops[i].V
		// Those of other traffic have other names; no scheduler takes them.
		if name, ok := strings.CutPrefix(op.Key, "pods/"); ok && strings.HasPrefix(name, "pod-") && op.Type == record.OpCreate && op.Outcome == record.OK && byName[name] == nil {
			byName[name] = &podLife{name: name, called: op.Call, created: op.Return}
			all = append(all, byName[name])
		}
	}
	for i := range run.Objects {
		at, o := run.Objects[i].At, &run.Objects[i].V
		p := byName[o.Name]
		if o.Kind != record.ObjectPod || o.Part != "" || p == nil {
			continue
		}
		p.seen = true
		switch {
		case o.Pod.Node != "" && p.node == "":
			p.bound, p.node = at, o.Pod.Node
		case o.Pod.Node != p.node && p.moved == "":
			p.moved, p.movedAt = quoted(o.Pod.Node, false), when(at)
		}
		if o.Gone {
			p.gone = at
		}
	}
	for i := range run.Actions {
		a := &run.Actions[i].V
		p := byName[a.Name]
		if p != nil && a.Resource == "pods" && a.Subresource == "binding" && a.Verb == "create" && a.Code >= 200 && a.Code <= 299 {
			p.bindings = append(p.bindings, describeAction(*a))
		}
	}
	return all
}
