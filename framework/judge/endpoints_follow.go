package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func endpointsFollow() definition {
	return definition{Doc{
		Name:       "endpoints-follow",
		Guarantee:  "Within the bound after a control-plane node was added, removed or lost for good, Endpoints and EndpointSlice of default/kubernetes hold exactly the API servers that there are, and stay so until the next change.",
		Source:     "Automated HA master deployment; apiserver-count fix proposal",
		NeedsBound: true,
		Params: map[string]string{
			"changes": "names of the changes to judge, separated by commas (default: all)",
		},
	}, judgeEndpointsFollow}
}

// following is what came of the list of addresses after a change.
type following struct {
	change record.NodeChange
	want   expected
	took   time.Duration // until every entrance showed it
	broken *finding
	// open says of what it cannot be told; superseded that the next change came
	// before the bound was over, and before all was settled.
	open       []string
	superseded bool
}

func judgeEndpointsFollow(m *matter) finding {
	changes, problem := m.changesOf(splitList(m.check.Params["changes"]))
	if problem != nil {
		return *problem
	}
	var worst following
	var settled, over, evidence []string
	for _, c := range changes {
		f := m.following(c)
		switch {
		case f.broken != nil:
			return *f.broken
		case f.superseded:
			over = append(over, changeWords(c))
		case len(f.open) > 0:
			return inconclusive("after %s, %s", changeWords(c), strings.Join(f.open, "; "))
		default:
			settled = append(settled, c.Node.Name)
			evidence = append(evidence, fmt.Sprintf("%s %s: %s after %s", changeWords(c), at(c.Effect), f.want, short(f.took)))
			if f.took >= worst.took {
				worst = f
			}
		}
	}
	if len(settled) == 0 {
		return inconclusive("after none of the changes (%s) was there time to see what became of the addresses", strings.Join(over, "; "))
	}
	if len(over) > 0 {
		evidence = append(evidence, "too soon before the next change to be held against the bound: "+strings.Join(over, "; "))
	}
	return passed("Endpoints and EndpointSlice of default/kubernetes held exactly the API servers that there were after each of %d changes of nodes, after %s at most (%s), within %s, and until the next change.",
		len(settled), short(worst.took), changeWords(worst.change), m.bound).took(worst.took).shows(evidence...)
}

// following looks at the time from a change to the next one, or to the next fault.
func (m *matter) following(c record.NodeChange) following {
	f := following{change: c, want: m.expectedAt(c.Effect)}
	end := min(f.want.end, nextChange(m.run, c.Called))
	var seen []string
	unsettled := false
	for _, h := range chains(m.run, f.want.hit...) {
		if !m.watchesThroughout(h.via, c.Effect, end) {
			continue
		}
		var wrong, last *record.Timed[record.Endpoints]
		right := record.Nanos(-1) // since when it holds what it must
		for i := range h.states {
			s := &h.states[i]
			if s.At > end {
				break
			}
			last = s
			switch {
			case !f.want.met(s.V.Addresses):
				wrong, right = s, -1
			case right < 0:
				right = max(s.At, c.Effect)
			}
		}
		if last == nil || last.At < c.Effect && right < 0 {
			continue // nothing was seen of it since
		}
		if !slices.Contains(seen, h.source) && (right < 0 || last.At >= c.Effect) {
			seen = append(seen, h.source)
		}
		took := span(c.Effect, right)
		switch {
		case right < 0 && span(c.Effect, last.At) > m.bound.Limit:
			broken := failed("default/kubernetes must hold exactly the API servers %s within %s after %s: %s still held %s after %s.",
				f.want, m.bound, changeWords(c), h, bracketed(wrong.V.Addresses), short(span(c.Effect, last.At))).
				took(span(c.Effect, last.At)).rests(c.Effect, last.At)
			f.broken = &broken
			return f
		case right < 0:
			unsettled = true
			f.open = append(f.open, fmt.Sprintf("%s held %s when it was last read, %s later, less than %s", h, bracketed(wrong.V.Addresses), short(span(c.Effect, last.At)), m.bound))
		case took > m.bound.Limit:
			broken := failed("default/kubernetes must hold exactly the API servers %s within %s after %s: %s did after %s.",
				f.want, m.bound, changeWords(c), h, short(took)).took(took).rests(c.Effect, right)
			f.broken = &broken
			return f
		default:
			f.took = max(f.took, took)
		}
	}
	for _, source := range sources {
		if !slices.Contains(seen, source) {
			f.open = append(f.open, "nothing was read of the "+source+" of default/kubernetes")
			unsettled = true
		}
	}
	f.superseded = unsettled && end < m.run.EndAt && span(c.Effect, end) <= m.bound.Limit
	return f
}

// watchesThroughout tells whether an entrance was there for the whole of a time; the
// balancer always is.
func (m *matter) watchesThroughout(entrance string, from, to record.Nanos) bool {
	for _, n := range nodeLives(m.run) {
		if n.Name == entrance {
			return n.from <= from && n.until >= to
		}
	}
	return true
}
