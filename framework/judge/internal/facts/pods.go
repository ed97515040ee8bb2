package facts

import (
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// A podLife is what is known of a bare pod.
type PodLife struct {
	Name            string
	Called, Created record.Nanos // its creation, acknowledged
	Bound           record.Nanos // seen with a node; 0 for never
	Node            string
	Seen            bool
	Gone            record.Nanos
	Bindings        []string // as in the audit log
	Moved, MovedAt  string   // to which other node, and when
}

// PodLives returns the lives of all bare pods whose creation was acknowledged, in that order.
func PodLives(run *record.Run) []*PodLife {
	byName := map[string]*PodLife{}
	var all []*PodLife
	for _, op := range record.Each(run.Ops) {
		// Other traffic uses other names for its pods; no scheduler handles them.
		if name, ok := strings.CutPrefix(op.Key, "pods/"); ok && strings.HasPrefix(name, "pod-") && op.Type == record.OpCreate && op.Outcome == record.OK && byName[name] == nil {
			byName[name] = &PodLife{Name: name, Called: op.Call, Created: op.Return}
			all = append(all, byName[name])
		}
	}
	for at, o := range record.Each(run.Objects) {
		p := byName[o.Name]
		if o.Kind != record.ObjectPod || o.Part != "" || p == nil {
			continue
		}
		p.Seen = true
		switch {
		case o.Pod.Node != "" && p.Node == "":
			p.Bound, p.Node = at, o.Pod.Node
		case o.Pod.Node != p.Node && p.Moved == "":
			p.Moved, p.MovedAt = text.Quoted(o.Pod.Node, false), text.When(at)
		}
		if o.Gone {
			p.Gone = at
		}
	}
	for _, a := range record.Each(run.Actions) {
		p := byName[a.Name]
		if p != nil && a.Resource == "pods" && a.Subresource == "binding" && a.Verb == "create" && a.Code >= 200 && a.Code <= 299 {
			p.Bindings = append(p.Bindings, DescribeAction(a))
		}
	}
	return all
}
