package judges

import (
	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var unsafeMemberRefused = Definition{Doc{
	Name:       "unsafe-member-refused",
	Needs:      []record.Access{record.EtcdMembers},
	Guarantee:  "While members are down, etcd refuses another voting member that would leave too few for a quorum.",
	Source:     "etcd --strict-reconfig-check",
	NeedsFault: true,
}, judgeUnsafeMemberRefused}

func judgeUnsafeMemberRefused(m *facts.Case) Finding {
	var refused []string
	var problem string
	for _, op := range record.Each(m.Run.Ops) {
		if op.Purpose != facts.PurposeAddMember || op.Call < m.Fault.Effect() || op.Return > m.Fault.Healed.Called {
			continue
		}
		switch op.Outcome {
		case record.OK:
			// Of five members four are left, which are a quorum of six.
			if voters, left := votersLeft(m, op.Call, op.Return); left >= (voters+1)/2+1 {
				return notApplicable("The requirement cannot be tested here: %d of %d members are left, a quorum even with one more, so etcd may accept it.", left, voters).
					Shows(text.Describe(op))
			}
			return Failed("While a member is down, etcd must refuse another voting member that would leave too few for a quorum: the one on %s accepted %s.", op.Entrance, op.Key).
				Shows(text.Describe(op))
		case record.Refused:
			refused = append(refused, text.Describe(op))
		default:
			problem = op.Error
		}
	}
	if len(refused) == 0 {
		if problem != "" {
			problem = ": " + problem
		}
		return Inconclusive("no etcd member was seen to refuse or to accept an additional member during the %s%s", m.Fault.What(), problem)
	}
	return Passed("etcd refused another voting member all %d times during the %s.", len(refused), m.Fault.What()).
		number(len(refused), "refusal").Shows(refused...)
}

// votersLeft returns how many voting members etcd had before the fault, and how many of them no
// fault hit between two times.
func votersLeft(m *facts.Case, from, to record.Nanos) (voters, left int) {
	for _, e := range m.Run.Etcd {
		if e.At <= m.Fault.Injected.Called && e.V.OK && len(e.V.Members) > 0 {
			voters = len(e.V.Members)
		}
	}
	return voters, max(0, voters-len(m.HitBetween(from, to)))
}
