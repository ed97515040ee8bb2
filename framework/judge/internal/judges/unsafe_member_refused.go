package judges

import (
	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func unsafeMemberRefused() Definition {
	return Definition{verdict.Doc{
		Name:       "unsafe-member-refused",
		Guarantee:  "etcd accepts no further voting member while one of its members is down.",
		Source:     "etcd --strict-reconfig-check",
		NeedsFault: true,
	}, judgeUnsafeMemberRefused}
}

func judgeUnsafeMemberRefused(m *facts.Matter) Finding {
	var refused []string
	var problem string
	for _, o := range m.Run.Ops {
		op := o.V
		if op.Purpose != facts.PurposeAddMember || op.Call < m.Fault.Effect() || op.Return > m.Fault.Healed.Called {
			continue
		}
		switch op.Outcome {
		case record.OK:
			return Failed("While a member is down, etcd must accept no further voting member, which would risk the quorum: the one on %s accepted %s.", op.Entrance, op.Key).
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
		return Inconclusive("no etcd member was seen to refuse or to accept a further member during the %s%s", m.Fault.What(), problem)
	}
	return Passed("etcd refused a further voting member during the %s, each of %d times.", m.Fault.What(), len(refused)).
		counted("%d refusals", len(refused)).Shows(refused...)
}
