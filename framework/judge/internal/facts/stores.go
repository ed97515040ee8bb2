package facts

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Stores describes where API servers keep what clients write through them: in the observed etcd
// members, or in other ones.
type Stores struct {
	// Here are the API servers whose writes fit the revisions of the members.
	Here []string
	// Elsewhere are those whose writes all contradict them, and Writes is one of these writes of each.
	Elsewhere, Writes []string
}

const (
	// appliedLimit is how long after the response to a write some member may not have applied it.
	appliedLimit = 5 * time.Second
	// enoughWrites is how many writes of an API server must contradict the members' revisions.
	enoughWrites = 2
)

// Stores compares the versions of acknowledged writes with the revisions that etcd members reported
// between from and to, a time without faults. The version of an object is the revision of the etcd
// cluster that it is in. In one etcd cluster a write has a greater revision than every one that
// a member reported before its call, and some member soon has as great a one. API servers whose
// writes show neither, or both, are left out.
func (m *Case) Stores(from, to record.Nanos) (s Stores) {
	seen := revisionsBetween(m.Run, from, to)
	for _, server := range m.APIServers() {
		fits, problems := 0, []string(nil)
		for _, op := range record.Each(m.Run.Ops) {
			if op.Entrance != server || op.Call < from || op.Return > to || !hasNewVersion(op) {
				continue
			}
			switch fit, problem := seen.fit(op); {
			case problem != "":
				problems = append(problems, fmt.Sprintf("%s, has version %s, although %s", text.Describe(op), op.Revision, problem))
			case fit:
				fits++
			}
		}
		switch {
		case fits > 0:
			s.Here = append(s.Here, server)
		case len(problems) >= enoughWrites:
			s.Elsewhere, s.Writes = append(s.Elsewhere, server), append(s.Writes, problems[0])
		}
	}
	return s
}

// hasNewVersion reports whether an operation gave an object a new version. Old API servers answer
// a deletion with the version before it.
func hasNewVersion(op record.Op) bool {
	return op.API == APIKubernetes && (op.Type == record.OpCreate || op.Type == record.OpUpdate) && op.Outcome == record.OK &&
		record.Number(op.Revision) > 0 && op.Revision != op.Expect
}

// revisions are the greatest revisions that etcd members had reported, by time.
type revisions []record.Timed[record.EtcdStatus]

func revisionsBetween(run *record.Run, from, to record.Nanos) (all revisions) {
	all = slices.DeleteFunc(slices.Clone(run.Etcd), func(e record.Timed[record.EtcdStatus]) bool {
		return !e.V.OK || e.V.Revision == 0 || e.At < from || e.At > to
	})
	slices.SortStableFunc(all, func(a, b record.Timed[record.EtcdStatus]) int { return cmp.Compare(a.At, b.At) })
	for i := 1; i < len(all); i++ {
		if all[i].V.Revision < all[i-1].V.Revision {
			all[i].V = all[i-1].V
		}
	}
	return all
}

// fit reports whether the version of a write lies between the revisions that were reported before
// its call and after its response, or what contradicts that.
func (all revisions) fit(op record.Op) (fit bool, problem string) {
	version := record.Number(op.Revision)
	before := sort.Search(len(all), func(i int) bool { return all[i].At >= op.Call }) - 1
	if before >= 0 && version <= uint64(all[before].V.Revision) {
		return false, fmt.Sprintf("the member on %s had reported revision %d before that", all[before].V.Node, all[before].V.Revision)
	}
	reached := sort.Search(len(all), func(i int) bool { return uint64(all[i].V.Revision) >= version })
	after := sort.Search(len(all), func(i int) bool { return all[i].At >= op.Return+record.Nanos(appliedLimit) })
	if after < reached {
		return false, fmt.Sprintf("no member reported more than revision %d until %s after that", all[after].V.Revision, text.Short(appliedLimit))
	}
	return before >= 0 && reached < len(all), ""
}
