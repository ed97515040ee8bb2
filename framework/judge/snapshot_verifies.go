package judge

import "github.com/holdfast-ha/holdfast/framework/record"

func snapshotVerifies() definition {
	return definition{Doc{
		Name:       "snapshot-verifies",
		Guarantee:  "While an etcd member is down, a snapshot can be taken of each other one. It verifies, and has all that was acknowledged before.",
		Source:     "High Availability Kubernetes Clusters (admin guide), more reliable storage; etcd disaster recovery",
		NeedsFault: true,
	}, judgeSnapshotVerifies}
}

func judgeSnapshotVerifies(m *matter) finding {
	var taken []string
	for _, o := range m.run.Ops {
		op := o.V
		if op.Purpose != purposeSnapshot || op.Call < m.fault.effect() || op.Return > m.fault.healed.Called {
			continue
		}
		switch {
		case op.Outcome != record.OK:
			return failed("A snapshot must be possible during the %s: none could be taken of the etcd member on %s (%s).", m.fault.what(), op.Entrance, op.Error).
				rests(op.Call, op.Return).shows(describe(op))
		case !op.Found:
			return failed("A snapshot must verify: the one of the etcd member on %s does not: %s.", op.Entrance, op.Error).shows(describe(op))
		case number(op.Revision) < number(op.Header):
			return failed("A snapshot must have all that was acknowledged before: the one of the etcd member on %s is of revision %s, and a quorum had %s.",
				op.Entrance, op.Revision, op.Header).shows(describe(op))
		}
		taken = append(taken, "of the member on "+op.Entrance+": "+op.Value+", revision "+op.Revision)
	}
	if len(taken) == 0 {
		return inconclusive("no snapshot was taken during the %s", m.fault.what())
	}
	return passed("During the %s, a snapshot was taken of each of %d etcd members, and verifies.", m.fault.what(), len(taken)).
		counted("%d snapshots", len(taken)).shows(taken...)
}
