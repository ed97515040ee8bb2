package reports

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func objectWords(o record.Object) string {
	s := fmt.Sprintf("%s %s: ", o.Kind, o.Name)
	switch {
	case o.Deployment != nil:
		d := o.Deployment
		s += fmt.Sprintf("%d wanted, %d there, %d ready, generation %d", d.Wanted, d.Replicas, d.Ready, d.Generation)
		if d.Observed != d.Generation {
			s += fmt.Sprintf(" (%d looked at)", d.Observed)
		}
	case o.Pod != nil:
		s += podWords(*o.Pod)
	case o.Slice != nil:
		s += fmt.Sprintf("%d pods ready", len(o.Slice.Ready))
	case o.Node != nil:
		s += "Ready is " + o.Node.Ready
	case o.Heartbeat != nil:
		s += "renewed " + o.Heartbeat.Renewed.UTC().Format("15:04:05.000")
	}
	if o.Gone {
		s += ", gone"
	}
	return s + optional(", version ", o.Revision) + optional(", through ", o.Via)
}

func podWords(p record.PodState) string {
	s := p.Phase + optional(" on ", p.Node)
	if p.Ready {
		s += ", ready"
	}
	if p.Deleting {
		s += ", being deleted"
	}
	if p.Restarts > 0 {
		s += fmt.Sprintf(", %d restarts", p.Restarts)
	}
	return s + optional(", of ", p.Controller)
}
