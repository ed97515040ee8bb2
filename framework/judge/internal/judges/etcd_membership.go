package judges

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var etcdMembership = Definition{Doc{
	Name:  "etcd-membership",
	Needs: []record.Access{record.EtcdMembers},
	Guarantee: "An odd number (3 or more) of voting etcd members, all healthy, with one leader, one cluster ID and no alarm; what is put through one member is read through every other. " +
		"The versions of client writes confirm that every API server writes to these members.",
	Source: "High Availability Kubernetes Clusters (admin guide); control plane resilience overview",
}, judgeEtcdMembership}

func judgeEtcdMembership(m *facts.Case) Finding {
	from, to := m.Quiet()
	nodes := m.NodesWith("etcd")
	if len(nodes) == 0 {
		return Inconclusive("the record names no node that runs etcd")
	}
	last := map[string]record.EtcdStatus{}
	var names, members []string
	for _, n := range nodes {
		names = append(names, n.Name)
		state, problem := memberHealth(m.Run, n.Name, from, to)
		if problem != nil {
			return problem.Rests(from, to)
		}
		last[n.Name] = state
		if !state.Learner {
			members = append(members, state.Member)
		}
	}
	slices.Sort(members)
	if f := cmp.Or(oneCluster(m.Run, names, last, from, to), votingMembers(names, last, members), usedMembers(m, names, from, to)); f != nil {
		return *f
	}

	var puts, gets []record.Op
	for _, o := range m.Run.Ops {
		switch op := o.V; {
		case op.API != facts.APIEtcd || op.Purpose != "cross-member":
		case op.Type == record.OpPut:
			puts = append(puts, op)
		case facts.IsQuorumRead(op):
			gets = append(gets, op)
		}
	}
	pairs := facts.OrderedPairs(names)
	reads := facts.MatchReads(puts, gets)
	if w := reads.Wrong; w != nil {
		return Failed("A key put through one etcd member must be read through every other: %s was put to %q through %s, and the next linearizable read through %s returned %s.",
			w.Write.Key, w.Write.Value, w.Pair.From, w.Pair.To, text.Quoted(w.Read.Value, w.Read.Found)).
			counted("%d of %d pairs", len(reads.Seen), len(pairs)).Shows(text.Describe(w.Write), text.Describe(w.Read))
	}
	if missing := reads.Missing(pairs); len(missing) > 0 {
		return Inconclusive("%d of %d ordered pairs of etcd members have no put that was read: %s", len(missing), len(pairs), strings.Join(missing, "; ")).
			counted("%d of %d pairs", len(reads.Seen), len(pairs))
	}
	leader := last[names[0]]
	return Passed("etcd has %d voting members (%s), all healthy, one leader in term %d, one cluster ID and no alarm; each of %d ordered pairs of members read what the other had put.",
		len(members), text.And(names), leader.Term, len(pairs)).counted("%d members, %d of %d pairs", len(members), len(pairs), len(pairs))
}

// memberHealth returns a member's last healthy state between from and to. Two
// answers in a row that are missing or name no leader make it unhealthy; a
// single one may be a request that was given up at the end of a step.
func memberHealth(run *record.Run, node string, from, to record.Nanos) (last record.EtcdStatus, problem *Finding) {
	n, bad, healthy := 0, 0, false
	var why string
	for _, e := range run.Etcd {
		if e.V.Node != node || e.At < from || e.At > to {
			continue
		}
		n++
		if e.V.OK && e.V.Leader != "" {
			// Members are queried less often than the rest.
			if len(e.V.Members) == 0 {
				e.V.Members = last.Members
			}
			bad, last, healthy = 0, e.V, true
			continue
		}
		bad++
		why = cmp.Or(e.V.Error, "it reported no leader")
		if bad == 2 {
			return last, Failed("Every etcd member must be healthy: the one on %s was not, twice in a row (%s).", node, why).problem()
		}
	}
	switch {
	case n == 0:
		return last, Inconclusive("the record has no status of the etcd member on %s", node).problem()
	case !healthy:
		return last, Inconclusive("the record has one status of the etcd member on %s, and it is not healthy (%s)", node, why).problem()
	}
	return last, nil
}

// oneCluster checks what must hold in every response, and that the last responses agree on the
// leader. After a change of the leader, only those count that were requested afterwards: whose
// member had responded before, no earlier than the change was seen. Terms do not show what is
// newer, since a member reports that of what it has applied.
func oneCluster(run *record.Run, names []string, last map[string]record.EtcdStatus, from, to record.Nanos) *Finding {
	clusters := map[string]string{}
	leader := map[string]string{}                                          // as each member last reported
	latest, before := map[string]record.Nanos{}, map[string]record.Nanos{} // when it did, and the time before
	var changed record.Nanos                                               // when a member last reported another leader
	for at, s := range record.Each(run.Etcd) {
		if at < from || at > to || !s.OK {
			continue
		}
		if len(s.Alarms) > 0 {
			return Failed("etcd must have no alarm: the member on %s reported %s %s.", s.Node, text.And(s.Alarms), text.At(at)).problem()
		}
		if clusters[s.Cluster] == "" {
			clusters[s.Cluster] = s.Node
		}
		if s.Leader == "" {
			continue
		}
		if was := leader[s.Node]; was != "" && was != s.Leader {
			changed = max(changed, at)
		}
		leader[s.Node] = s.Leader
		before[s.Node], latest[s.Node] = latest[s.Node], at
	}
	if len(clusters) > 1 {
		var list []string
		for _, id := range slices.Sorted(maps.Keys(clusters)) {
			list = append(list, fmt.Sprintf("%s on %s", id, clusters[id]))
		}
		return Failed("All etcd members must belong to one cluster: they report the cluster IDs %s.", text.And(list)).problem()
	}
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return before[n] < changed })
	for _, n := range names {
		if first, s := last[names[0]], last[n]; s.Leader != first.Leader {
			return Failed("All etcd members must follow one leader: the one on %s follows %s in term %d, the one on %s follows %s in term %d.",
				names[0], first.Leader, first.Term, n, s.Leader, s.Term).Rests(from, to).problem()
		}
	}
	return nil
}

// usedMembers checks that API servers write to the members that answered. If none of them does,
// nothing that these members report says anything about the cluster.
func usedMembers(m *facts.Case, names []string, from, to record.Nanos) *Finding {
	stores := m.Stores(from, to)
	if len(stores.Elsewhere) == 0 {
		return nil
	}
	servers, writes := stores.Elsewhere, stores.Writes
	if len(stores.Here) == 0 {
		return Inconclusive("the API servers on %s write to other etcd members than those on %s, whose state the record has: %s", text.And(servers), text.And(names), writes[0]).Shows(writes...).problem()
	}
	return Failed("All API servers must use one etcd cluster: those on %s write to the members on %s, and those on %s do not: %s.",
		text.And(stores.Here), text.And(names), text.And(servers), writes[0]).counted("%d of %d API servers", len(stores.Here), len(stores.Here)+len(servers)).Shows(writes...).problem()
}

func votingMembers(names []string, last map[string]record.EtcdStatus, members []string) *Finding {
	asked := false
	for _, n := range names {
		s := last[n]
		if len(s.Members) == 0 {
			continue
		}
		asked = true
		if listed := slices.Sorted(slices.Values(s.Members)); !slices.Equal(listed, members) {
			return Failed("Every voting etcd member must be healthy: the member on %s lists %d voting members (%s), but %d answer (%s).",
				n, len(listed), text.And(listed), len(members), text.And(members)).problem()
		}
	}
	switch {
	case len(members) < 3 || len(members)%2 == 0:
		return Failed("etcd must have an odd number of voting members, 3 or more: it has %d (on %s).", len(members), text.And(names)).
			number(len(members), "member").problem()
	case !slices.Contains(members, last[names[0]].Leader):
		return Failed("The leader of etcd must be one of its voting members: it is %s, and the members are %s.", last[names[0]].Leader, text.And(members)).problem()
	case !asked:
		return Inconclusive("no etcd member was asked for the list of voting members").problem()
	}
	return nil
}
