package judges

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var etcdHashes = Definition{Doc{
	Name:      "etcd-hashes",
	Needs:     []record.Access{record.EtcdMembers},
	Invariant: "HA-INV-009",
	Lasting:   true,
	Guarantee: "All etcd members have the same data: they belong to one cluster, and their hashes at one revision are equal.",
	Source:    "etcd, data corruption check (HashKV); the checks of every run of the catalogue",
}, judgeEtcdHashes}

// hashed is what two hashes must have in common to be comparable: a member that
// compacted at another revision hashes other data.
type hashed struct {
	cluster             string
	revision, compacted int64
}

func judgeEtcdHashes(m *facts.Case) Finding {
	seen := map[hashed]map[string]record.EtcdStatus{} // by node
	asked := map[string]bool{}                        // by node
	began := map[hashed]record.Nanos{}                // when the first of these hashes was read
	for at, s := range record.Each(m.Run.Etcd) {
		asked[s.Node] = true
		if !s.OK || s.HashRevision == 0 {
			continue
		}
		h := hashed{s.Cluster, s.HashRevision, s.HashCompacted}
		if seen[h] == nil {
			seen[h], began[h] = map[string]record.EtcdStatus{}, at
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
		return Failed("All etcd members must belong to one cluster: the member on %s answered from cluster %s %s, and the one on %s from cluster %s before and after that.",
			a.V.Node, a.V.Cluster, text.At(a.At), b.V.Node, b.V.Cluster)
	}
	order := slices.SortedFunc(maps.Keys(seen), func(a, b hashed) int {
		return cmp.Or(cmp.Compare(a.revision, b.revision), cmp.Compare(a.compacted, b.compacted), cmp.Compare(a.cluster, b.cluster))
	})
	order = slices.DeleteFunc(order, func(h hashed) bool { return len(seen[h]) < 2 })
	switch {
	case len(asked) < 2:
		return notApplicable("The record has no status of two etcd members.")
	case len(order) == 0:
		return Inconclusive("of %d etcd members, no two reported a hash at the same revision after the same compaction, so their data was not compared", len(asked)).Shows(hashes(m)...)
	}
	last := order[len(order)-1]
	if others := leftOut(m, seen[last], began[last]); len(others) > 0 {
		return Inconclusive("%d etcd members had the same hash at revision %d, but the data on %s was not compared with theirs", len(seen[last]), last.revision, text.And(others)).Shows(hashes(m)...)
	}
	return Passed("%d etcd members had the same hash at revision %d.", len(seen[last]), last.revision).number(len(seen[last]), "member")
}

// lately is how long before the comparison of hashes a member must have answered to count as one of
// those to compare: it is asked for its status every second or so.
const lately = record.Nanos(10 * time.Second)

// leftOut returns the nodes whose members had lately answered when hashes were compared, and that
// stay, but whose member has none of these hashes.
func leftOut(m *facts.Case, compared map[string]record.EtcdStatus, at record.Nanos) []string {
	others := map[string]bool{}
	for _, e := range m.Run.Etcd {
		if _, ok := compared[e.V.Node]; !ok && e.V.OK && e.At >= at-lately && m.Stays(e.V.Node) {
			others[e.V.Node] = true
		}
	}
	return slices.Sorted(maps.Keys(others))
}

func hashes(m *facts.Case) (list []string) {
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
func twoClusters(m *facts.Case) (a, b *record.Timed[record.EtcdStatus]) {
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
