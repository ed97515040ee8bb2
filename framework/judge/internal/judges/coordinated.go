package judges

import "github.com/holdfast-ha/holdfast/framework/judge/internal/facts"

// coordinated gives a judge of what waits for a takeover the bound of coordinated leader election,
// where the active instances are elected in that way.
func coordinated(judge func(*facts.Matter) Finding) func(*facts.Matter) Finding {
	return func(m *facts.Matter) Finding {
		bound := m.Coordinated(*m.Bound)
		if bound.Limit == m.Bound.Limit {
			return judge(m)
		}
		longer := *m
		longer.Bound = &bound
		f := judge(&longer)
		if f.Bound == nil {
			f.Bound = &bound
		}
		return f
	}
}
