package judges

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func etcdHashes() Definition {
	return Definition{verdict.Doc{
		Name:      "etcd-hashes",
		Needs:     []record.Access{record.EtcdMembers},
		Invariant: "HA-INV-009",
		Lasting:   true,
		Guarantee: "All etcd members have the same data: they are of one cluster, and their hashes at one revision are equal.",
		Source:    "etcd, data corruption check (HashKV); the checks of every run of the catalogue",
	}, judgeEtcdHashes}
}

// hashed is what two hashes must have in common to be comparable: a member that
// compacted at another revision hashes other data.
type hashed struct {
	cluster             string
	revision, compacted int64
}

func judgeEtcdHashes(m *facts.Matter) Finding {
	seen := map[hashed]map[string]record.EtcdStatus{} // by node
	asked := map[string]bool{}                        // by node
	for _, e := range m.Run.Etcd {
		s := e.V
		asked[s.Node] = true
		if !s.OK || s.HashRevision == 0 {
			continue
		}
		h := hashed{s.Cluster, s.HashRevision, s.HashCompacted}
		if seen[h] == nil {
			seen[h] = map[string]record.EtcdStatus{}
		}
		for _, other := range seen[h] {
			if other.Hash != s.Hash {
				return Failed("All etcd members must have the same data: at revision %d the member on %s has the hash %08x, the one on %s %08x.",
					s.HashRevision, other.Node, other.Hash, s.Node, s.Hash)
			}
		}
		if _, ok := seen[h][s.Node]; !ok {
			seen[h][s.Node] = s
		}
	}
	if a, b := twoClusters(m); a != nil {
		return Failed("All etcd members must be of one cluster: the member on %s answered from cluster %s %s, and the one on %s from cluster %s before and after that.",
			a.V.Node, a.V.Cluster, text.At(a.At), b.V.Node, b.V.Cluster)
	}
	order := slices.SortedFunc(maps.Keys(seen), func(a, b hashed) int { return cmp.Compare(a.revision, b.revision) })
	order = slices.DeleteFunc(order, func(h hashed) bool { return len(seen[h]) < 2 })
	switch {
	case len(asked) < 2:
		return notApplicable("the record has no status of two etcd members")
	case len(order) == 0:
		return Inconclusive("of %d etcd members, no two gave a hash at one revision after one compaction, so their data was not compared", len(asked)).Shows(hashes(m)...)
	}
	last := order[len(order)-1]
	return Passed("%d etcd members had the same hash at revision %d.", len(seen[last]), last.revision).counted("%d members", len(seen[last]))
}

// hashes describes the last hash of each node.
func hashes(m *facts.Matter) (list []string) {
	last := map[string]record.EtcdStatus{}
	for _, e := range m.Run.Etcd {
		if e.V.OK && e.V.HashRevision > 0 {
			last[e.V.Node] = e.V
		}
	}
	for _, node := range slices.Sorted(maps.Keys(last)) {
		s := last[node]
		list = append(list, fmt.Sprintf("%s: %08x of cluster %s at revision %d, compacted at %d", node, s.Hash, s.Cluster, s.HashRevision, s.HashCompacted))
	}
	return list
}

// twoClusters finds a member of a cluster other than the one to which another node's member
// belonged before and after that. A restored cluster has a new identity as a whole.
func twoClusters(m *facts.Matter) (a, b *record.Timed[record.EtcdStatus]) {
	last := map[string]*record.Timed[record.EtcdStatus]{}   // of each node
	others := map[string]*record.Timed[record.EtcdStatus]{} // by node: a status of another cluster since its last one
	for i := range m.Run.Etcd {
		e := &m.Run.Etcd[i]
		if !e.V.OK || e.V.Cluster == "" {
			continue
		}
		before, other := last[e.V.Node], others[e.V.Node]
		if before != nil && before.V.Cluster == e.V.Cluster && other != nil {
			return other, before
		}
		last[e.V.Node] = e
		delete(others, e.V.Node)
		for node, s := range last {
			if node != e.V.Node && s.V.Cluster != e.V.Cluster && others[node] == nil {
				others[node] = e
			}
		}
	}
	return nil, nil
}
