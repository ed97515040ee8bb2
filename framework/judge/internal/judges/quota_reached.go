package judges

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var quotaReached = Definition{Doc{
	Name:       "quota-reached",
	Guarantee:  "When etcd's database has reached its quota, a member raises the alarm and reads continue through every API server; once space is free again and the alarm is disarmed, writes continue within the bound.",
	Source:     "etcd maintenance guide (space quota)",
	NeedsFault: true, NeedsBound: true,
}, judgeQuotaReached}

func judgeQuotaReached(m *facts.Case) Finding {
	from, to, back := m.Fault.Effect(), m.Fault.Healed.Called, m.Fault.HealEffect()
	if !slices.ContainsFunc(m.Run.Etcd, func(e record.Timed[record.EtcdStatus]) bool {
		return e.At >= from && e.At <= to && facts.HasAlarm(e.V, "NOSPACE")
	}) {
		if !slices.ContainsFunc(m.Run.Etcd, func(e record.Timed[record.EtcdStatus]) bool { return e.At >= from && e.At <= to && e.V.OK }) {
			return Inconclusive("no etcd member was asked for its alarms during the %s", m.Fault.What())
		}
		return Failed("An etcd member must raise the NOSPACE alarm when its database has reached the quota: none did during the %s.", m.Fault.What()).Rests(from, to)
	}
	servers := m.APIServers()
	reads := 0
	for _, e := range servers {
		through := slices.DeleteFunc(facts.ReadsThrough(m.Run, e, from, to), func(r record.Op) bool { return r.Purpose == facts.PurposeBurst })
		for _, r := range through {
			if r.Outcome != record.OK && r.Outcome != record.Refused {
				return Failed("Reads must continue when etcd's database has reached its quota: one through %s was not answered: %s.", e, r.Error).
					Rests(r.Call, r.Return).Shows(text.Describe(r))
			}
		}
		if len(through) < enoughAttempts {
			return Inconclusive("%s were tried through %s during the %s, fewer than the %d required for a verdict", text.Plural(len(through), "quorum read"), e, m.Fault.What(), enoughAttempts)
		}
		answered := len(slices.DeleteFunc(slices.Clone(through), func(r record.Op) bool { return r.Outcome != record.OK }))
		switch {
		case answered == 0:
			return Failed("Reads must continue when etcd's database has reached its quota: none of %s through %s was answered (%s).",
				text.Plural(len(through), "quorum read"), e, through[0].Error).Rests(from, to).Shows(text.Describe(through[0]))
		case answered < enoughAttempts || 2*answered < len(through):
			return Inconclusive("%d of %s through %s were answered during the %s, fewer than half or than the %d required for a verdict",
				answered, text.Plural(len(through), "quorum read"), e, m.Fault.What(), enoughAttempts)
		}
		reads += answered
	}
	var worst facts.Gap
	for _, e := range servers {
		until := back // of the traffic
		for _, w := range facts.WritesThrough(m.Run, e) {
			until = max(until, min(w.Ret, m.UntilNext(back)))
		}
		longest, proven, acks := facts.LongestGap(m.Run, e, back, until)
		switch {
		case proven.Proven() > m.Bound.Limit:
			return Failed("Writes must continue within %s once space is free again: through %s, none was acknowledged for %s (%s to %s).",
				m.Bound, e, text.Short(proven.Length()), text.When(proven.From), text.When(proven.To)).Took(proven.Length()).Rests(proven.From, proven.To)
		case acks == 0 || longest.Length() > m.Bound.Limit:
			return Inconclusive("too few writes were tried through %s after the %s was healed", e, m.Fault.What())
		}
		if longest.Length() > worst.Length() {
			worst = longest
		}
	}
	if len(servers) == 0 {
		return Inconclusive("the record names no API server")
	}
	return Passed("The alarm was raised, %d quorum reads were answered while no space was left, and writes through every API server continued afterwards: none waited longer than %s, within %s.",
		reads, text.Short(worst.Length()), m.Bound).Took(worst.Length())
}
