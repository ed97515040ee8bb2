package judges

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var snapshotVerifies = Definition{Doc{
	Name:       "snapshot-verifies",
	Needs:      []record.Access{record.EtcdMembers},
	Guarantee:  "While an etcd member is down, a snapshot can be taken of every other one. It verifies, and contains all that was acknowledged before.",
	Source:     "High Availability Kubernetes Clusters (admin guide), more reliable storage; etcd disaster recovery",
	NeedsFault: true,
}, judgeSnapshotVerifies}

func judgeSnapshotVerifies(m *facts.Case) Finding {
	var taken []string
	of := map[string]bool{} // nodes
	for _, op := range record.Each(m.Run.Ops) {
		if op.Purpose != facts.PurposeSnapshot || op.Call < m.Fault.Effect() || op.Return > m.Fault.Healed.Called {
			continue
		}
		switch {
		case op.Outcome != record.OK:
			return Failed("A snapshot must be possible during the %s: none could be taken of the etcd member on %s (%s).", m.Fault.What(), op.Entrance, op.Error).
				Rests(op.Call, op.Return).Shows(text.Describe(op))
		case !op.Found:
			return Failed("A snapshot must verify: that of the etcd member on %s does not: %s.", op.Entrance, op.Error).Shows(text.Describe(op))
		case record.Number(op.Revision) < record.Number(op.Header):
			return Failed("A snapshot must have all that was acknowledged before: that of the etcd member on %s has revision %s, but a quorum was already at %s.",
				op.Entrance, op.Revision, op.Header).Shows(text.Describe(op))
		}
		if record.Number(op.Revision) == 0 || record.Number(op.Header) == 0 {
			return Inconclusive("the record does not have the revision of the snapshot of the etcd member on %s, and that of a quorum before it", op.Entrance).Shows(text.Describe(op))
		}
		of[op.Entrance] = true
		taken = append(taken, "of the member on "+op.Entrance+": "+op.Value+", revision "+op.Revision)
	}
	if len(taken) == 0 {
		return Inconclusive("no snapshot was taken during the %s", m.Fault.What())
	}
	var missing []string
	for _, n := range m.NodesWith("etcd") {
		life, there := facts.LifeAt(m.Run, n.Name, m.Fault.Effect())
		if stays := there && life.Until > m.Fault.Healed.Called; !of[n.Name] && stays && !slices.Contains(m.HitBetween(m.Fault.Effect(), m.Fault.Healed.Called), n.Name) {
			missing = append(missing, n.Name)
		}
	}
	if len(missing) > 0 {
		return Inconclusive("during the %s no snapshot was taken of the etcd member on %s", m.Fault.What(), text.And(missing)).Shows(taken...)
	}
	return Passed("During the %s, a snapshot was taken of each of %d etcd members, and verifies.", m.Fault.What(), len(taken)).
		number(len(taken), "snapshot").Shows(taken...)
}
