package judges

import (
	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// notInTime returns a failure if a list of addresses was not as expected within the check's bound
// after from, the time of the described event. An address too many has that, and E more, from the
// election of another etcd leader, which renewed its lease.
func notInTime(m *facts.Case, want facts.Expected, h facts.History, s facts.Settling, from record.Nanos, what string) *Finding {
	held, until := "did", s.Since
	if s.Since < 0 {
		held, until = "still held "+facts.Bracketed(s.Wrong.V.Addresses), s.Last.At
	}
	took := text.Span(from, until)
	if took <= m.Bound.Limit {
		return nil
	}
	renewed := m.AddressesRenewed(from)
	if renewed > 0 && want.Exceeded(s.Wrong.V.Addresses) && text.Span(renewed, until) <= m.Bound.Limit+m.Run.Meta.Settings["E"] {
		return nil
	}
	return Failed("default/kubernetes must hold exactly the API servers %s within %s after %s: %s %s after %s.",
		want, m.Bound, what, h, held, text.Short(took)).Took(took).Rests(from, until).problem()
}
