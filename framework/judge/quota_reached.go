package judge

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func quotaReached() definition {
	return definition{Doc{
		Name:       "quota-reached",
		Guarantee:  "When etcd's database has reached its quota, a member raises the alarm and reads go on through every API server; once there is space again and the alarm is disarmed, so do writes, within the bound.",
		Source:     "etcd maintenance guide (space quota)",
		NeedsFault: true, NeedsBound: true,
	}, judgeQuotaReached}
}

func judgeQuotaReached(m *matter) finding {
	from, to, back := m.fault.effect(), m.fault.healed.Called, m.fault.healEffect()
	if !slices.ContainsFunc(m.run.Etcd, func(e record.Timed[record.EtcdStatus]) bool {
		return e.At >= from && e.At <= to && hasAlarm(e.V, "NOSPACE")
	}) {
		if !slices.ContainsFunc(m.run.Etcd, func(e record.Timed[record.EtcdStatus]) bool { return e.At >= from && e.At <= to && e.V.OK }) {
			return inconclusive("no etcd member was asked for its alarms during the %s", m.fault.what())
		}
		return failed("An etcd member must raise the alarm NOSPACE when its database has reached the quota: none did during the %s.", m.fault.what()).rests(from, to)
	}
	servers := m.apiServers()
	reads := 0
	for _, e := range servers {
		through := readsThrough(m.run, e, from, to)
		for _, r := range through {
			if r.Outcome != record.OK && r.Outcome != record.Refused {
				return failed("Reads must go on when etcd's database has reached its quota: one through %s was not answered: %s.", e, r.Error).
					rests(r.Call, r.Return).shows(describe(r))
			}
		}
		if len(through) < enoughAttempts {
			return inconclusive("%s were tried through %s during the %s, and it takes %d", plural(len(through), "quorum read"), e, m.fault.what(), enoughAttempts)
		}
		reads += len(through)
	}
	var worst gap
	for _, e := range servers {
		until := back // of the traffic
		for _, w := range writesThrough(m.run, e) {
			until = max(until, min(w.ret, m.untilNext(back)))
		}
		longest, proven, acks := longestGap(m.run, e, back, until)
		switch {
		case proven.proven() > m.bound.Limit:
			return failed("Writes must go on within %s once there is space again: through %s, none was acknowledged for %s (%s to %s).",
				m.bound, e, short(proven.length()), when(proven.from), when(proven.to)).took(proven.length()).rests(proven.from, proven.to)
		case acks == 0 || longest.length() > m.bound.Limit:
			return inconclusive("too few writes were tried through %s after the %s was healed", e, m.fault.what())
		}
		if longest.length() > worst.length() {
			worst = longest
		}
	}
	if len(servers) == 0 {
		return inconclusive("the record names no API server")
	}
	return passed("The alarm was raised, all %d quorum reads were answered while there was no space, and writes through every API server went on afterwards: none waited longer than %s, within %s.",
		reads, short(worst.length()), m.bound).took(worst.length())
}
