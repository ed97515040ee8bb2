package judges

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// judgeFurtherLeases judges the lease of each elected component that only the description of the
// cluster names, by the times of its own election. Its instances may be anywhere, so the check
// names faults that hit node after node.
func judgeFurtherLeases(m *facts.Case) Finding {
	names := facts.FurtherLeases(m.Run)
	if len(names) == 0 {
		return optional("The description of the cluster names no additional lease.")
	}
	var renewed []string
	var open, away *Finding
	var longest time.Duration
	for _, name := range names {
		f := leaseRenewed(m, name)
		switch {
		case f.Verdict == verdict.Fail:
			return f
		case f.Verdict == verdict.Inconclusive && open == nil:
			open = &f
		case f.Verdict == verdict.NotApplicable && away == nil:
			away = &f
		case f.Verdict == verdict.Pass:
			renewed, longest = append(renewed, f.Sentence), max(longest, *f.Value)
		}
	}
	switch {
	case open != nil:
		return *open
	case len(renewed) == 0:
		return *away
	}
	f := Passed("Each additional lease was renewed throughout: %s.", text.And(renewed)).Took(longest)
	if away != nil {
		f = f.Shows(away.Sentence)
	}
	return f
}

// leaseRenewed judges one lease under all faults of the check. The sentence of a pass is a part
// of one.
func leaseRenewed(m *facts.Case, name string) Finding {
	bound, err := verdict.ParseBound(m.Bound.Formula, m.Settings(name))
	if err != nil {
		return Inconclusive("the check cannot be judged: %v", err)
	}
	f := bounded(bound)
	hit := 0
	var worst time.Duration
	for _, fault := range m.Together() {
		from, to := fault.Effect(), m.UntilNext(fault.Effect())
		states := facts.LeaseStates(m.Run, name, 0, to)
		if two := facts.TwoHolders(states); two != nil {
			return failTwoHolders(name, two)
		}
		i := slices.IndexFunc(states, func(s record.Timed[record.Lease]) bool { return s.At > fault.Injected.Called })
		if i < 0 {
			return Inconclusive("the record has no state of the lease of %s after the %s", name, fault.What())
		}
		if i == 0 || states[i-1].V.Holder == "" {
			return Inconclusive("the record does not show who held the lease of %s before the %s", name, fault.What())
		}
		old := states[i-1].V
		if d := leaseDuration(old); d > m.Settings(name)["L"] {
			return Inconclusive("the lease of %s lasts %s, and the description of the cluster says %s", name, text.Short(d), text.Short(m.Settings(name)["L"]))
		}
		if slices.Contains(fault.Nodes(), facts.HolderNode(old)) {
			hit++
		}
		r := renewalsOf(states, from, func(l record.Lease) bool { return l.Holder != "" })
		switch {
		case max(r.shown, r.last) > bound.Limit:
			return f(Failed("The lease of %s must not be without a renewal for longer than %s: under the %s it was for %s; %s on %s had held it.",
				name, bound, fault.What(), text.Short(max(r.shown, r.last)), old.Holder, facts.HolderNode(old)).Took(max(r.shown, r.last)).Rests(from, r.looked))
		case r.worst > bound.Limit:
			return f(Inconclusive("the lease of %s was not observed often enough to know whether it was without a renewal for more than %s: for %s none was seen",
				name, bound, text.Short(r.worst)))
		case r.first.Holder == "" || r.last > m.Settings(name)["R"]:
			return f(Inconclusive("no instance had renewed the lease of %s for %s when the lease was last seen under the %s, which is less than the bound of %s",
				name, text.Short(r.last), fault.What(), bound))
		}
		worst = max(worst, r.worst)
	}
	if hit == 0 {
		return f(notApplicable("The requirement cannot be tested here: no fault hit a control-plane node on which the lease of %s was held.", name))
	}
	return Finding{Verdict: verdict.Pass, Sentence: fmt.Sprintf("that of %s with pauses of %s at most, within %s, and its holder's node was hit %d times", name, text.Short(worst), bound, hit)}.Took(worst)
}
