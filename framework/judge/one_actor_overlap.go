package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// overlap is how one instance acted beside another that had taken over.
type overlap struct {
	component, node, rival string
	times                  int
	// took is how long after the takeover it acted last, allowed how long it may have.
	took, allowed time.Duration
}

func (o overlap) String() string {
	times := "times"
	if o.times == 1 {
		times = "time"
	}
	return fmt.Sprintf("of %s, the one on %s acted %d %s beside the one on %s, for the last time %s after that had taken over, within %s",
		o.component, o.node, o.times, times, o.rival, short(o.took), short(o.allowed))
}

// untimed returns an action whose time is not known, since the clock of its API server does
// not agree with the harness's, of an instance that another had taken over from when it
// entered the audit log; nil if there is none. An entry that is told late is not meant: the
// API server's other entries of that time show that its clock agrees. Nor is a clock that
// a fault moved.
func (d deeds) untimed(m *matter) *deed {
	for i, act := range d.doubtful {
		logged := act
		logged.Received = act.at
		if _, rival := d.lease(logged); act.Election || rival == nil || act.at <= rival.Completed || m.clockMoved(act.Via) || m.clockAgrees(act.Via, act.at) {
			continue
		}
		return &d.doubtful[i]
	}
	return nil
}

// clockMoved reports whether a fault moved the clock of a node.
func (m *matter) clockMoved(node string) bool {
	for _, inj := range m.faults {
		if inj.injected != nil && strings.HasPrefix(inj.injected.Name, "clock-") && slices.Contains(inj.nodes(), node) {
			return true
		}
	}
	return false
}

// clockAgrees reports whether an audit log has an entry of about a time whose stamps agree
// with the harness's clock.
func (m *matter) clockAgrees(via string, t record.Nanos) bool {
	const about = record.Nanos(5 * time.Second)
	return slices.ContainsFunc(m.run.Actions, func(a record.Timed[record.Action]) bool {
		return a.V.Via == via && a.At >= t-about && a.At <= t+about && !doubtfulStamps(a, m.run.Meta.Settings["M"])
	})
}
