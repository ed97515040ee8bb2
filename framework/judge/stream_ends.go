package judge

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// clientsOwn is what the client says of a watch that it ended itself.
const clientsOwn = "closed by the client"

// silenceLimit is how long an open watch may take to show a change that was acknowledged
// when nothing is broken any more: far longer than it takes on a busy machine.
const silenceLimit = 5 * time.Second

// brokeDown tells whether a watch ended otherwise than by its client's will or in due
// time.
func brokeDown(ended *record.Watch) bool {
	return ended.Error != "" && !strings.HasPrefix(ended.Error, clientsOwn)
}

// goesOn says from where a watch goes on.
func (s *stream) goesOn() string {
	where := ", from version " + s.watch.From
	if s.previous != nil {
		where += fmt.Sprintf(" of watch %s through %s", s.previous.watch.ID, s.previous.watch.Entrance)
	}
	return where + ","
}

// gapBreach says what a watch left out; why is added to the name of the watch.
func (s *stream) gapBreach(g *omission, why string) breach {
	first, proof := g.missing[0], s.messages[g.proof]
	others := ""
	if n := len(g.missing) - 1; n > 0 {
		others = fmt.Sprintf(" and %d other changes", n)
	}
	b := s.breachAt(g.proof, fmt.Sprintf("%s%s left out %s%s, and was past it %s with %q", s.name(), why, first.describe(), others, at(proof.Seen), proof), first.keyChange)
	if g.proof == 0 {
		b.spans = append(b.spans, s.opening())
	}
	return b
}
