package judges

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var endpointsFollow = Definition{Doc{
	Name:       "endpoints-follow",
	Guarantee:  "Within the bound after a control-plane node was added, removed or lost for good, Endpoints and EndpointSlice of default/kubernetes hold exactly the existing API servers, until the next change. An election of another etcd leader renews the leases of addresses: then the bound counts from there, and is E longer.",
	Source:     "Automated HA master deployment; apiserver-count fix proposal",
	NeedsBound: true,
	Params: map[string]string{
		"changes": "names of the changes to judge, separated by commas (default: all)",
	},
}, given(nodesChanged, judgeEndpointsFollow)}

// following is how the list of addresses followed a change.
type following struct {
	change record.NodeChange
	want   facts.Expected
	took   time.Duration // until every entrance showed it
	broken *Finding
	// open names what is not known; superseded reports that the next change came before the bound
	// was over, and before everything was settled.
	open       []string
	superseded bool
}

func judgeEndpointsFollow(m *facts.Case, changes []record.NodeChange) Finding {
	var worst following
	var settled, over, evidence []string
	for _, c := range changes {
		f := follow(m, c)
		switch {
		case f.broken != nil:
			return *f.broken
		case f.superseded:
			over = append(over, facts.ChangeWords(c))
		case len(f.open) > 0:
			return Inconclusive("after %s, %s", facts.ChangeWords(c), strings.Join(f.open, "; "))
		default:
			settled = append(settled, c.Node.Name)
			evidence = append(evidence, fmt.Sprintf("%s %s: %s after %s", facts.ChangeWords(c), text.At(c.Effect), f.want, text.Short(f.took)))
			if f.took >= worst.took {
				worst = f
			}
		}
	}
	if len(settled) == 0 {
		return Inconclusive("none of the changes (%s) left enough time to observe the addresses afterwards", strings.Join(over, "; "))
	}
	if len(over) > 0 {
		evidence = append(evidence, "too close to the next change to be compared with the bound: "+strings.Join(over, "; "))
	}
	within := m.Bound.String()
	if worst.took > m.Bound.Limit {
		within += " and E of the election of another etcd leader, which renewed the leases of addresses"
	}
	return Passed("Endpoints and EndpointSlice of default/kubernetes held exactly the existing API servers after each change of nodes (%d): after %s at most (%s), within %s, and until the next change.",
		len(settled), text.Short(worst.took), facts.ChangeWords(worst.change), within).Took(worst.took).Shows(evidence...)
}

// follow covers the time from a change to the next one, or to the next fault.
func follow(m *facts.Case, c record.NodeChange) following {
	f := following{change: c, want: m.ExpectedAt(c.Effect)}
	end := min(f.want.End, facts.NextChange(m.Run, c.Called))
	var seen []string
	unsettled := false
	for _, h := range facts.Chains(m.Run, f.want.Hit...) {
		if !watchesThroughout(m, h.Via, c.Effect, end) {
			continue
		}
		s := f.want.Settling(h, c.Effect, end)
		if s.Last == nil || s.Last.At < c.Effect {
			continue // nothing of it was seen since
		}
		if !slices.Contains(seen, h.Source) {
			seen = append(seen, h.Source)
		}
		if f.broken = notInTime(m, f.want, h, s, c.Effect, facts.ChangeWords(c)); f.broken != nil {
			return f
		}
		if s.Since < 0 {
			unsettled = true
			f.open = append(f.open, fmt.Sprintf("%s held %s when it was last read, %s later, less than %s",
				h, facts.Bracketed(s.Wrong.V.Addresses), text.Short(text.Span(c.Effect, s.Last.At)), m.Bound))
		} else {
			f.took = max(f.took, text.Span(c.Effect, s.Since))
		}
	}
	for _, source := range facts.Sources {
		if !slices.Contains(seen, source) {
			f.open = append(f.open, "no state of the "+source+" of default/kubernetes was read")
			unsettled = true
		}
	}
	f.superseded = unsettled && end < m.Run.EndAt && text.Span(c.Effect, end) <= m.Bound.Limit
	return f
}

// watchesThroughout reports whether an entrance existed for a whole period; the balancer always
// does.
func watchesThroughout(m *facts.Case, entrance string, from, to record.Nanos) bool {
	all := facts.LivesOf(m.Run, entrance)
	return len(all) == 0 || all[0].From <= from && all[0].Until >= to
}
