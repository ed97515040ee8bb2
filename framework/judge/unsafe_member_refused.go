package judge

import "github.com/holdfast-ha/holdfast/framework/record"

func unsafeMemberRefused() definition {
	return definition{Doc{
		Name:       "unsafe-member-refused",
		Guarantee:  "etcd takes no further voting member while one that it has is down.",
		Source:     "etcd --strict-reconfig-check",
		NeedsFault: true,
	}, judgeUnsafeMemberRefused}
}

func judgeUnsafeMemberRefused(m *matter) finding {
	var refused []string
	var problem string
	for _, o := range m.run.Ops {
		op := o.V
		if op.Purpose != purposeAddMember || op.Call < m.fault.effect() || op.Return > m.fault.healed.Called {
			continue
		}
		switch op.Outcome {
		case record.OK:
			return failed("While a member is down, etcd must take no further voting member, which would risk the quorum: the one on %s took %s.", op.Entrance, op.Key).
				shows(describe(op))
		case record.Refused:
			refused = append(refused, describe(op))
		default:
			problem = op.Error
		}
	}
	if len(refused) == 0 {
		if problem != "" {
			problem = ": " + problem
		}
		return inconclusive("no etcd member was seen to refuse or to take a further member during the %s%s", m.fault.what(), problem)
	}
	return passed("etcd refused a further voting member during the %s, each of %d times.", m.fault.what(), len(refused)).
		counted("%d refusals", len(refused)).shows(refused...)
}
