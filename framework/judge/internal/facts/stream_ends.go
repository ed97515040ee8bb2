package facts

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// ClientsOwn is the client's reason for a watch that it closed itself.
const ClientsOwn = "closed by the client"

// SilenceLimit is how long an open watch may take to show a change that was acknowledged after
// everything is healed: far longer than it takes on a busy machine.
const SilenceLimit = 5 * time.Second

// BrokeDown reports whether a watch ended other than by its client's decision or on time.
func BrokeDown(ended *record.Watch) bool {
	return ended.Error != "" && !strings.HasPrefix(ended.Error, ClientsOwn)
}

// LeftOut describes what the watch left out between its start and its last message.
func (s *Stream) LeftOut() []Breach { return s.leftOut("") }

// LeftOutFirst describes what the watch left out before its first message: it did not continue
// from the version that it was opened with.
func (s *Stream) LeftOutFirst() []Breach {
	if g := s.findGap(); g == nil || g.proof != 0 {
		return nil
	}
	where := ", from version " + s.Watch.From
	if s.Previous != nil {
		where += fmt.Sprintf(" of watch %s through %s", s.Previous.Watch.ID, s.Previous.Watch.Entrance)
	}
	return s.leftOut(where + ",")
}

// leftOut adds a remark about the watch to its name.
func (s *Stream) leftOut(watch string) []Breach {
	g := s.findGap()
	if g == nil {
		return nil
	}
	first, proof := g.missing[0], s.Messages[g.proof]
	others := ""
	if n := len(g.missing) - 1; n > 0 {
		others = fmt.Sprintf(" and %d other changes", n)
	}
	b := s.BreachAt(g.proof, fmt.Sprintf("%s%s left out %s%s, and had passed it %s with %q", s.Name(), watch, first.Describe(), others, text.At(proof.Seen), proof), first.KeyChange)
	if g.proof == 0 {
		b.Spans = append(b.Spans, s.Opening())
	}
	return []Breach{b}
}
