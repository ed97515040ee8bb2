package judge

import (
	"cmp"
	"maps"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func etcdHashes() definition {
	return definition{Doc{
		Name:      "etcd-hashes",
		Guarantee: "All etcd members have the same data: their hashes at one revision are equal.",
		Source:    "etcd, data corruption check (HashKV); the checks of every run of the catalogue",
	}, judgeEtcdHashes}
}

// hashed is what two hashes must have in common to be comparable: a member that
// compacted at another revision hashes other data.
type hashed struct {
	cluster             string
	revision, compacted int64
}

func judgeEtcdHashes(m *matter) finding {
	seen := map[hashed]map[string]record.EtcdStatus{} // by node
	for _, e := range m.run.Etcd {
		s := e.V
		if !s.OK || s.HashRevision == 0 {
			continue
		}
		h := hashed{s.Cluster, s.HashRevision, s.HashCompacted}
		if seen[h] == nil {
			seen[h] = map[string]record.EtcdStatus{}
		}
		for _, other := range seen[h] {
			if other.Hash != s.Hash {
				return failed("All etcd members must have the same data: at revision %d the member on %s has the hash %08x, the one on %s %08x.",
					s.HashRevision, other.Node, other.Hash, s.Node, s.Hash)
			}
		}
		if _, ok := seen[h][s.Node]; !ok {
			seen[h][s.Node] = s
		}
	}
	order := slices.SortedFunc(maps.Keys(seen), func(a, b hashed) int { return cmp.Compare(a.revision, b.revision) })
	order = slices.DeleteFunc(order, func(h hashed) bool { return len(seen[h]) < 2 })
	if len(order) == 0 {
		return notApplicable("The record has no hashes of two etcd members at one revision.")
	}
	last := order[len(order)-1]
	return passed("%d etcd members had the same hash at revision %d.", len(seen[last]), last.revision).counted("%d members", len(seen[last]))
}
