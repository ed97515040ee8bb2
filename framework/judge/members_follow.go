package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func membersFollow() definition {
	return definition{Doc{
		Name:      "members-follow",
		Guarantee: "etcd's voting members follow the nodes, one by one, in one cluster: a node that joins gets clients only once its API server is ready; one that leaves is taken from the load balancer first, then from etcd, and then deleted; and nobody lists it any more. What was interrupted leaves no member.",
		Source:    "Automated HA master deployment (adding and deleting replicas); etcd runtime reconfiguration",
		Params: map[string]string{
			"changes": "names of the changes to judge, separated by commas (default: all)",
			"leader":  "true: the node that leaves first must have had etcd's leader",
		},
	}, judgeMembersFollow}
}

// stepOrder is the order in which a change takes its steps, as far as it takes them, and
// which of them it must take.
func stepOrder(phase record.ChangePhase) (order, must []string) {
	if phase == record.NodeAdded {
		return []string{record.StepLearner, record.StepStart, record.StepJoin, record.StepPromote, record.StepReady, record.StepBalance}, []string{record.StepReady}
	}
	return []string{record.StepUnbalance, record.StepStop, record.StepRemove, record.StepDiscard}, []string{record.StepRemove, record.StepDiscard}
}

// votes is which members vote, as all that listed them after a change say.
type votes struct {
	at      record.Nanos
	cluster string
	members []string
	lists   map[string][]string // voters by the node that listed them
	extra   []string            // learners
}

// votesBetween returns what members listed between two times, the last list of each; nil
// if none listed any.
func (m *matter) votesBetween(from, to record.Nanos) *votes {
	v := votes{lists: map[string][]string{}}
	for _, e := range m.run.Etcd {
		s := e.V
		if e.At < from || e.At > to || !s.OK || len(s.Members) == 0 {
			continue
		}
		v.at, v.cluster, v.members, v.extra = e.At, s.Cluster, slices.Sorted(slices.Values(s.Members)), s.Learners
		v.lists[s.Node] = v.members
	}
	if len(v.lists) == 0 {
		return nil
	}
	return &v
}

func judgeMembersFollow(m *matter) finding {
	changes, problem := m.changesOf(splitList(m.check.Params["changes"]))
	if problem != nil {
		return *problem
	}
	if m.check.Params["leader"] == "true" {
		if problem := m.ledBefore(changes); problem != nil {
			return *problem
		}
	}
	var evidence []string
	for i, t := range m.run.Nodes {
		c := t.V
		if !slices.ContainsFunc(changes, func(o record.NodeChange) bool { return o.Called == c.Called && o.Node.Name == c.Node.Name }) {
			continue
		}
		before, after := m.votesBetween(0, c.Called), m.votesBetween(t.At, m.nextAfter(i))
		if i > 0 {
			before = m.votesBetween(m.run.Nodes[i-1].At, m.nextAfter(i-1))
		}
		if before == nil || after == nil {
			return inconclusive("no etcd member said which members there are before and after the %s", changing(c)).shows(evidence...)
		}
		evidence = append(evidence, fmt.Sprintf("%s: %d voting members before, %d after", changing(c), len(before.members), len(after.members)))
		if f := m.oneMemberMore(c, before, after); f != nil {
			return f.rests(c.Called, after.at).shows(evidence...)
		}
		if f := m.inOrder(c, t.At); f != nil {
			return f.shows(evidence...)
		}
	}
	return passed("After each of %d changes of nodes, etcd's voting members were those of the nodes, in one cluster; the steps came in the order of the design.",
		len(changes)).counted("%d changes", len(changes)).shows(evidence...)
}

// nextAfter is when the change after one began: nodes that are lost together are removed
// one after the other.
func (m *matter) nextAfter(i int) record.Nanos {
	if i+1 == len(m.run.Nodes) {
		return m.run.EndAt
	}
	now, next := m.run.Nodes[i], m.run.Nodes[i+1]
	if next.V.Called > now.At {
		return next.V.Called
	}
	begins := next.At
	for _, s := range m.run.Steps {
		if s.V.Node == next.V.Node.Name && s.V.Began > now.At {
			begins = min(begins, s.V.Began)
		}
	}
	return begins
}

// oneMemberMore checks the members before a change against those after it.
func (m *matter) oneMemberMore(c record.NodeChange, before, after *votes) *finding {
	must := func(format string, args ...any) *finding {
		f := failed("etcd's voting members must follow the nodes: after the %s, "+format+".", slices.Concat([]any{changing(c)}, args)...)
		return &f
	}
	for _, node := range slices.Sorted(maps.Keys(after.lists)) {
		if list := after.lists[node]; !slices.Equal(list, after.members) {
			return must("%s lists %s, and others %s", node, and(list), and(after.members))
		}
	}
	if before.cluster != after.cluster {
		return must("the cluster is %s, and was %s before", after.cluster, before.cluster)
	}
	if len(after.extra) > 0 {
		return must("there is a member that does not vote (%s)", and(after.extra))
	}
	left := slices.DeleteFunc(slices.Clone(before.members), func(id string) bool { return slices.Contains(after.members, id) })
	joined := slices.DeleteFunc(slices.Clone(after.members), func(id string) bool { return slices.Contains(before.members, id) })
	wantLeft, wantJoined := 0, 0
	switch c.Phase {
	case record.NodeAdded:
		wantJoined = 1
	case record.NodeRemoved, record.NodeLost:
		wantLeft = 1
	}
	if len(left) != wantLeft || len(joined) != wantJoined {
		return must("%d of %d members have left and %d have joined (%s), instead of %d and %d",
			len(left), len(before.members), len(joined), and(after.members), wantLeft, wantJoined)
	}
	if own := m.memberOf(c.Node.Name); wantLeft == 1 && own != "" && left[0] != own {
		return must("the member that has left is %s, and the node's was %s", left[0], own)
	}
	return nil
}

// inOrder checks the order of the steps of a change.
func (m *matter) inOrder(c record.NodeChange, done record.Nanos) *finding {
	if c.Phase == record.NodeUndone {
		return nil // what it did is undone in whatever order
	}
	order, must := stepOrder(c.Phase)
	var took []record.Step
	for _, t := range m.run.Steps {
		if s := t.V; s.Node == c.Node.Name && s.Began >= c.Called && s.Done <= done && slices.Contains(order, s.Name) {
			took = append(took, s)
		}
	}
	for _, name := range must {
		if !slices.ContainsFunc(took, func(s record.Step) bool { return s.Name == name }) {
			f := inconclusive("the record of the %s has no step %q", changing(c), name)
			return &f
		}
	}
	for i, s := range took {
		for _, earlier := range took[:i] {
			if slices.Index(order, earlier.Name) > slices.Index(order, s.Name) || s.Began < earlier.Done {
				f := failed("The steps of the %s must come in the order of the design (%s): %q began %s, and %q was complete %s.",
					changing(c), strings.Join(order, ", "), s.Name, when(s.Began), earlier.Name, when(earlier.Done)).rests(earlier.Began, s.Done)
				return &f
			}
		}
	}
	return nil
}

// ledBefore checks that the first node that leaves has the leader of etcd.
func (m *matter) ledBefore(changes []record.NodeChange) *finding {
	for _, c := range changes {
		if c.Phase != record.NodeRemoved && c.Phase != record.NodeLost {
			continue
		}
		var last record.EtcdStatus
		for _, e := range m.run.Etcd {
			if e.V.Node == c.Node.Name && e.V.OK && e.At < c.Called {
				last = e.V
			}
		}
		if last.Leader == "" || last.Leader != last.Member {
			f := inconclusive("the member on %s was not seen to lead etcd before the %s", c.Node.Name, changing(c))
			return &f
		}
		return nil
	}
	f := inconclusive("no node has left")
	return &f
}

// memberOf returns the ID of the etcd member that was last seen on a node.
func (m *matter) memberOf(node string) (id string) {
	for _, e := range m.run.Etcd {
		if e.V.Node == node && e.V.OK {
			id = e.V.Member
		}
	}
	return id
}
