package judges

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var membersFollow = Definition{Doc{
	Name:      "members-follow",
	Needs:     []record.Access{record.EtcdMembers},
	Guarantee: "etcd's voting members follow the nodes, one by one, in one cluster: the load balancer sends clients to a node that joins once its API server is ready, and not before; an etcd leader hands over before its node leaves; a node that leaves is removed from the load balancer first, then from etcd, and then deleted, and no member lists it any more. What the load balancer reports of its backends and what members list must not contradict that order. An interrupted change leaves no member behind.",
	Source:    "Automated HA master deployment (adding and deleting replicas); etcd runtime reconfiguration",
	Params: map[string]string{
		"changes": "names of the changes to judge, separated by commas (default: all)",
		"leader":  "true: the node that leaves first must have had etcd's leader, and leave with its leadership handed over",
		"sizes":   "the numbers of voting members that the changes must pass through, such as \"3, 4, 5\"; with others the verdict is inconclusive (default: any)",
		"listed":  "true: after each node that died had lost its power, etcd must still have listed its member",
		"cut":     "true: additions must have been interrupted after each of their steps",
	},
	Values: map[string][]string{"leader": flag, "listed": flag, "cut": flag},
}, given(nodesChanged, judgeMembersFollow)}

// stepOrder returns the order of the steps of a change, and those that are required; the
// load balancer's are required if the cluster has one.
func stepOrder(m *facts.Case, phase record.ChangePhase) (order, must []string) {
	if phase == record.NodeAdded {
		order = []string{record.StepLearner, record.StepStart, record.StepJoin, record.StepPromote, record.StepReady, record.StepBalance}
		must = []string{record.StepReady, record.StepBalance}
	} else {
		order = []string{record.StepUnbalance, record.StepStop, record.StepLeader, record.StepRemove, record.StepDiscard}
		must = []string{record.StepUnbalance, record.StepRemove, record.StepDiscard}
	}
	if !m.Balanced() {
		must = slices.DeleteFunc(must, func(s string) bool { return s == record.StepBalance || s == record.StepUnbalance })
	}
	return order, must
}

// votes is which members vote, as reported by all that listed them after a change.
type votes struct {
	at      record.Nanos
	cluster string
	members []string
	lists   map[string][]string // voters by the node that listed them
	own     map[string]string   // each node's member
	extra   []string            // learners
}

// votesBetween returns what members listed between two times, the last list of each; nil
// if none listed any. With current, only linearizable lists count that were asked for in that time.
func votesBetween(m *facts.Case, from, to record.Nanos, current bool) *votes {
	v := votes{lists: map[string][]string{}, own: map[string]string{}}
	for at, s := range record.Each(m.Run.Etcd) {
		if at < from || at > to || !s.OK {
			continue
		}
		if v.own[s.Node] = s.Member; len(s.Members) == 0 || current && (s.Listed == 0 || s.Listed < from) {
			continue
		}
		v.at, v.cluster, v.members, v.extra = at, s.Cluster, slices.Sorted(slices.Values(s.Members)), s.Learners
		v.lists[s.Node] = v.members
	}
	if len(v.lists) == 0 {
		return nil
	}
	return &v
}

func judgeMembersFollow(m *facts.Case, changes []record.NodeChange) Finding {
	for _, required := range []struct {
		param string
		check func(*facts.Case, []record.NodeChange) *Finding
	}{{"leader", ledBefore}, {"listed", listedAfterLoss}, {"cut", cutEverywhere}} {
		if m.Check.Params[required.param] != "true" {
			continue
		}
		if problem := required.check(m, changes); problem != nil {
			return *problem
		}
	}
	var evidence, sizes []string
	for i, t := range m.Run.Nodes {
		c := t.V
		if !slices.ContainsFunc(changes, func(o record.NodeChange) bool { return o.Called == c.Called && o.Node.Name == c.Node.Name }) {
			continue
		}
		beforeAndAfter := func(current bool) (before, after *votes) {
			after = votesBetween(m, t.At, nextAfter(m, i), current)
			if i == 0 {
				return votesBetween(m, 0, c.Called, current), after
			}
			return votesBetween(m, m.Run.Nodes[i-1].At, nextAfter(m, i-1), current), after
		}
		if before, after := beforeAndAfter(true); before != nil && after != nil {
			if f := oneMemberMore(m, c, before, after); f != nil && f.Verdict == verdict.Fail {
				return f.Over(c.Called, after.at).Shows(evidence...)
			}
		}
		before, after := beforeAndAfter(false)
		if before == nil || after == nil {
			return Inconclusive("no etcd member listed the members before and after the %s", facts.Changing(c)).Shows(evidence...)
		}
		if len(sizes) == 0 {
			sizes = append(sizes, strconv.Itoa(len(before.members)))
		}
		sizes = append(sizes, strconv.Itoa(len(after.members)))
		evidence = append(evidence, fmt.Sprintf("%s: %d voting members before, %d after", facts.Changing(c), len(before.members), len(after.members)))
		if f := oneMemberMore(m, c, before, after); f != nil {
			return f.Rests(c.Called, after.at).Shows(evidence...)
		}
		led := m.Check.Params["leader"] == "true" && len(evidence) == 1
		if f := cmp.Or(inOrder(m, c, t.At, led), seenInOrder(m, t, nextAfter(m, i))); f != nil {
			return f.Shows(evidence...)
		}
	}
	if want := text.SplitList(m.Check.Params["sizes"]); len(want) > 0 && !slices.Equal(sizes, want) {
		return Inconclusive("the changes led through %s voting members, but the check requires %s", strings.Join(sizes, ", "), strings.Join(want, ", ")).Shows(evidence...)
	}
	return Passed("After each change of nodes (%d), etcd's voting members were those of the nodes, in one cluster; the steps came in the required order.",
		len(changes)).number(len(changes), "change").Shows(evidence...)
}

// nextAfter is when the next change started: nodes that are lost together are removed one after
// the other.
func nextAfter(m *facts.Case, i int) record.Nanos {
	if i+1 == len(m.Run.Nodes) {
		return m.Run.EndAt
	}
	now, next := m.Run.Nodes[i], m.Run.Nodes[i+1]
	if next.V.Called > now.At {
		return next.V.Called
	}
	begins := next.At
	for _, s := range m.Run.Steps {
		if s.V.Node == next.V.Node.Name && s.V.Began > now.At {
			begins = min(begins, s.V.Began)
		}
	}
	return begins
}

// oneMemberMore checks the members before a change against those after it.
func oneMemberMore(m *facts.Case, c record.NodeChange, before, after *votes) *Finding {
	must := func(format string, args ...any) *Finding {
		return Failed("etcd's voting members must follow the nodes: after the %s, "+format+".", slices.Concat([]any{facts.Changing(c)}, args)...).problem()
	}
	for _, node := range slices.Sorted(maps.Keys(after.lists)) {
		if list := after.lists[node]; !slices.Equal(list, after.members) {
			return must("%s lists %s, and others %s", node, text.And(list), text.And(after.members))
		}
	}
	if before.cluster != after.cluster {
		return must("the cluster ID is %s, and was %s before", after.cluster, before.cluster)
	}
	if len(after.extra) > 0 {
		return must("etcd has a member that does not vote (%s)", text.And(after.extra))
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
			len(left), len(before.members), len(joined), text.And(after.members), wantLeft, wantJoined)
	}
	if own := facts.LastStatus(m.Run, c.Node.Name, c.Called).Member; wantLeft == 1 && own != "" && left[0] != own {
		return must("the member that left is %s, but the node's member was %s", left[0], own)
	}
	switch own := after.own[c.Node.Name]; {
	case wantJoined == 0 || own == joined[0]:
		return nil
	case own == "":
		return Inconclusive("the etcd member on %s did not answer after the %s, so it is not known whether the new member is its own", c.Node.Name, facts.Changing(c)).problem()
	default:
		return must("the member that joined is %s, but the node's member is %s", joined[0], own)
	}
}

// inOrder checks the order of the steps of a change, of the node with etcd's leader if led is set.
func inOrder(m *facts.Case, c record.NodeChange, done record.Nanos, led bool) *Finding {
	if c.Phase == record.NodeUndone {
		return nil // what it did is undone in whatever order
	}
	order, must := stepOrder(m, c.Phase)
	if led && c.Phase == record.NodeRemoved {
		must = append(must, record.StepLeader)
	}
	var took []record.Step
	for _, t := range m.Run.Steps {
		if s := t.V; s.Node == c.Node.Name && s.Began >= c.Called && s.Done <= done && slices.Contains(order, s.Name) {
			took = append(took, s)
		}
	}
	if len(took) == 0 {
		return Inconclusive("the record has no step of the %s", facts.Changing(c)).problem()
	}
	for _, name := range must {
		if !slices.ContainsFunc(took, func(s record.Step) bool { return s.Name == name }) {
			return Failed("The %s must include the step %q; the record has %d other steps of it.", facts.Changing(c), name, len(took)).Over(c.Called, done).problem()
		}
	}
	for i, s := range took {
		for _, earlier := range took[:i] {
			if slices.Index(order, earlier.Name) > slices.Index(order, s.Name) || s.Began < earlier.Done {
				return Failed("The steps of the %s must come in the required order (%s): %q began %s, and %q was complete %s.",
					facts.Changing(c), strings.Join(order, ", "), s.Name, text.When(s.Began), earlier.Name, text.When(earlier.Done)).Over(earlier.Began, s.Done).problem()
			}
		}
	}
	return nil
}

// viewDelay is how old the load balancer's view of its backends may be when it is recorded.
const viewDelay = 2 * time.Second

// viewed returns when the load balancer had a view of a backend at the earliest.
func viewed(b record.Timed[record.Backend]) record.Nanos {
	return cmp.Or(b.V.Asked, b.At-record.Nanos(viewDelay))
}

// seenInOrder compares what etcd's members listed with the backends that the load balancer
// reported, from the start of a change until the next one: the steps alone are what the provider
// says of itself. A backend is recorded when it appears and when it changes, not when it is gone;
// those that exist after a change of nodes are recorded then.
func seenInOrder(m *facts.Case, t record.Timed[record.NodeChange], until record.Nanos) *Finding {
	switch c := t.V; c.Phase {
	case record.NodeUndone:
		return leftBehind(m, t, until)
	case record.NodeRemoved, record.NodeLost:
		own := facts.LastStatus(m.Run, c.Node.Name, c.Called).Member
		gone := slices.IndexFunc(m.Run.Etcd, func(e record.Timed[record.EtcdStatus]) bool {
			return e.At > c.Called && e.At <= until && e.V.OK && len(e.V.Members) > 0 && !slices.Contains(e.V.Members, own)
		})
		if own == "" || gone < 0 {
			return nil
		}
		list := m.Run.Etcd[gone]
		for _, b := range m.Run.Backends {
			if b.V.Name == c.Node.Name && viewed(b) > list.At && b.At <= until {
				return Failed("The %s must remove the node from the load balancer before its etcd member is removed: %s did not list that member %s any more, and the load balancer still reported the backend %s.",
					facts.Changing(c), list.V.Node, text.At(list.At), text.At(b.At)).Rests(list.At, b.At).problem()
			}
		}
	case record.NodeAdded:
		own := facts.LastStatus(m.Run, c.Node.Name, until).Member
		used := slices.IndexFunc(m.Run.Backends, func(b record.Timed[record.Backend]) bool {
			return b.V.Name == c.Node.Name && b.At >= c.Called && b.At <= until
		})
		if own == "" || used < 0 {
			return notUsed(m, c)
		}
		backend := m.Run.Backends[used]
		for _, e := range m.Run.Etcd {
			// Another member may not know the latest members yet.
			leads := e.V.OK && len(e.V.Members) > 0 && e.V.Leader == e.V.Member
			if leads && e.At > backend.At+record.Nanos(viewDelay) && e.At <= until && !slices.Contains(e.V.Members, own) {
				return Failed("The %s must add the node to the load balancer only after its etcd member votes and its API server is ready: the load balancer reported the backend %s, and etcd's leader on %s did not list that member among those that vote %s.",
					facts.Changing(c), text.At(backend.At), e.V.Node, text.At(e.At)).Rests(backend.At, e.At).problem()
			}
		}
		return notUsed(m, c)
	}
	return nil
}

// leftBehind finds a backend of an addition that was undone.
func leftBehind(m *facts.Case, t record.Timed[record.NodeChange], until record.Nanos) *Finding {
	node := ""
	for _, s := range m.Run.Steps {
		if s.V.Change == t.V.Name {
			node = s.V.Node
		}
	}
	for _, b := range m.Run.Backends {
		if node != "" && b.V.Name == node && viewed(b) > t.At && b.At <= until {
			return Failed("The %s was undone and must leave nothing behind: the load balancer still reported a backend of %s %s.",
				facts.Changing(t.V), node, text.At(b.At)).Rests(t.At, b.At).problem()
		}
	}
	return nil
}

// notUsed finds a node that was added and whose backend the load balancer did not report to be in use
// within H + M, although it reported backends. Without its whole view after the addition nothing is
// known.
func notUsed(m *facts.Case, c record.NodeChange) *Finding {
	limit := m.Run.Meta.Settings["H"] + m.Run.Meta.Settings["M"]
	from := c.Effect // since when the balancer reports
	until := min(m.Run.EndAt, facts.NextInPlace(m.Run, c.Node.Name, c.Effect))
	for _, next := range m.Run.Nodes {
		if next.V.Node.Name == c.Node.Name && next.V.Called > c.Called {
			until = min(until, next.V.Called)
		}
	}
	reported, silent, inUse := false, false, facts.Endless
	for _, b := range m.Run.Backends {
		own := b.V.Name == c.Node.Name || facts.HostOf(b.V.Address) == c.Node.Address
		switch {
		case b.At > until || inUse < facts.Endless:
			continue
		case b.V.Error != "" || b.V.Missing != "":
			silent, reported = true, false
			continue
		case silent: // it reports again
			silent, from = false, max(from, viewed(b))
		}
		switch {
		case b.At < c.Called:
		case own && (b.V.Up || b.V.Standby):
			inUse = viewed(b)
		default:
			reported = reported || viewed(b) >= from
		}
	}
	known := min(inUse, until)
	switch {
	case inUse <= from+record.Nanos(limit) || !reported || silent:
		return nil
	case len(m.Touching(c.Effect, from+record.Nanos(limit), 0)) > 0:
		return Inconclusive("a fault was active when the load balancer should have started to use %s", c.Node.Name).problem()
	case time.Duration(known-from) <= limit:
		return Inconclusive("the load balancer was observed for %s after the %s, which is less than %s (H + M), and did not use the node", text.Short(text.Span(from, known)), facts.Changing(c), text.Short(limit)).problem()
	}
	return Failed("The load balancer must use a node within %s (H + M) of the %s: it reported its backends, and did not use this one for %s.",
		text.Short(limit), facts.Changing(c), text.Short(text.Span(from, known))).Took(time.Duration(known-from)).Rests(from, known).problem()
}

// cutEverywhere checks that additions were interrupted after every step that one takes.
func cutEverywhere(m *facts.Case, changes []record.NodeChange) *Finding {
	steps := func(c record.NodeChange) (names []string) {
		for _, t := range m.Run.Steps {
			if t.V.Change == c.Name && (c.Node.Name == "" || t.V.Node == c.Node.Name) {
				names = append(names, t.V.Name)
			}
		}
		return names
	}
	var whole, left []string
	for _, t := range m.Run.Nodes {
		if c := t.V; c.Phase == record.NodeAdded && len(whole) == 0 {
			whole = steps(c)
		}
	}
	for _, name := range whole {
		if !slices.ContainsFunc(changes, func(c record.NodeChange) bool {
			took := steps(c)
			return c.Phase == record.NodeUndone && len(took) > 0 && took[len(took)-1] == name
		}) {
			left = append(left, strconv.Quote(name))
		}
	}
	if len(whole) == 0 || len(left) > 0 {
		return Inconclusive("no addition was interrupted after %s; an addition takes %d steps here", text.And(left), len(whole)).problem()
	}
	return nil
}

// listedAfterLoss checks that etcd listed the members of nodes that had died, before these were
// removed.
func listedAfterLoss(m *facts.Case, changes []record.NodeChange) *Finding {
	lost := 0
	for _, c := range changes {
		if c.Phase != record.NodeLost {
			continue
		}
		lost++
		own, listed := facts.LastStatus(m.Run, c.Node.Name, c.Called).Member, false
		removed := m.Run.EndAt
		for _, s := range m.Run.Steps {
			if s.V.Node == c.Node.Name && s.V.Name == record.StepRemove && s.V.Began >= c.Called {
				removed = min(removed, s.V.Began)
			}
		}
		for _, e := range m.Run.Etcd {
			if e.V.OK && e.At > c.Effect && e.At < removed {
				listed = listed || own != "" && slices.Contains(e.V.Members, own)
			}
		}
		if !listed {
			return Inconclusive("no etcd member was seen to list that of %s once the node had lost its power", c.Node.Name).problem()
		}
	}
	if lost == 0 {
		return Inconclusive("no node has died").problem()
	}
	return nil
}

// ledBefore checks that the first node that leaves has the leader of etcd.
func ledBefore(m *facts.Case, changes []record.NodeChange) *Finding {
	for _, c := range changes {
		if c.Phase != record.NodeRemoved && c.Phase != record.NodeLost {
			continue
		}
		last := facts.LastStatus(m.Run, c.Node.Name, c.Called-1)
		if last.Leader == "" || last.Leader != last.Member {
			return Inconclusive("the member on %s was not seen to lead etcd before the %s", c.Node.Name, facts.Changing(c)).problem()
		}
		return nil
	}
	return Inconclusive("no node has left").problem()
}
