package facts

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// ClientsOwn is what the client says of a watch that it ended itself.
const ClientsOwn = "closed by the client"

// SilenceLimit is how long an open watch may take to show a change that was acknowledged
// when nothing is broken any more: far longer than it takes on a busy machine.
const SilenceLimit = 5 * time.Second

// BrokeDown reports whether a watch ended otherwise than by its client's will or in due
// time.
func BrokeDown(ended *record.Watch) bool {
	return ended.Error != "" && !strings.HasPrefix(ended.Error, ClientsOwn)
}

// GoesOn says from where a watch continues.
func (s *Stream) GoesOn() string {
	where := ", from version " + s.Watch.From
	if s.Previous != nil {
		where += fmt.Sprintf(" of watch %s through %s", s.Previous.Watch.ID, s.Previous.Watch.Entrance)
	}
	return where + ","
}

// GapBreach says what a watch left out; why is added to the name of the watch.
func (s *Stream) GapBreach(g *omission, why string) Breach {
	first, proof := g.missing[0], s.Messages[g.Proof]
	others := ""
	if n := len(g.missing) - 1; n > 0 {
		others = fmt.Sprintf(" and %d other changes", n)
	}
	b := s.BreachAt(g.Proof, fmt.Sprintf("%s%s left out %s%s, and was past it %s with %q", s.Name(), why, first.Describe(), others, text.At(proof.Seen), proof), first.KeyChange)
	if g.Proof == 0 {
		b.Spans = append(b.Spans, s.Opening())
	}
	return b
}
