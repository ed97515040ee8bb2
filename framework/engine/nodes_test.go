package engine

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

func TestValidateNodes(t *testing.T) {
	step := func(name, id, node string) Step { return Step{Action: &Action{Name: name, ID: id, Node: node}} }
	inPlace := func(name, node, to string, args map[string]map[string]string) Step {
		return Step{Action: &Action{Name: name, Node: node, To: to, Args: args}}
	}
	draining := map[string]map[string]string{"kube-apiserver": {"shutdown-delay-duration": "2s"}}
	good := record.Check{Requirement: "X", Judge: "etcd-membership"}
	for name, test := range map[string]struct {
		steps      []Step
		changes    string
		want, text string
	}{
		"good":                    {[]Step{step("add-node", "a", ""), step("lose-node", "b", "leader"), step("remove-node", "", "node/2"), step("remove-node", "c", "")}, "a, b, c", "", ""},
		"an added one by name":    {[]Step{step("add-node", "a", ""), {Inject: &Inject{ID: "k", Fault: "kill", Target: "apiserver/a"}}, {Heal: "k"}, step("remove-node", "", "a")}, "", "", ""},
		"without a name":          {[]Step{step("add-node", "", "")}, "", "timeline[0].action.as", "is missing"},
		"no name":                 {[]Step{step("add-node", "A b", "")}, "", "timeline[0].action.as", `"A b"`},
		"same name":               {[]Step{step("add-node", "a", ""), step("remove-node", "a", "1")}, "", "timeline[1].action.as", "already"},
		"to be added by name":     {[]Step{step("add-node", "a", "2")}, "", "timeline[0].action.node", "its own name"},
		"nothing to remove":       {[]Step{step("remove-node", "", "")}, "", "timeline[0].action.node", "no node that was added"},
		"removed already":         {[]Step{step("add-node", "a", ""), step("remove-node", "", ""), step("remove-node", "", "a")}, "", "timeline[2].action.node", `"a"`},
		"no target":               {[]Step{step("remove-node", "", "queen!")}, "", "timeline[0].action.node", "queen!"},
		"another action by name":  {[]Step{step("ready", "a", "")}, "", "timeline[0].action.as", "does not change"},
		"another action's node":   {[]Step{step("ready", "", "1")}, "", "timeline[0].action.node", "does not change a node"},
		"replaced":                {[]Step{step("lose-node", "b", "follower"), step("replace-node", "again", "b"), step("remove-node", "", "again")}, "b, again", "", ""},
		"replaced twice":          {[]Step{step("lose-node", "b", "follower"), step("replace-node", "c", "b"), step("replace-node", "d", "b")}, "", "timeline[2].action.node", `"b" is not the name`},
		"replaced while there":    {[]Step{step("add-node", "a", ""), step("replace-node", "b", "a")}, "", "timeline[1].action.node", `"a" is not the name`},
		"two lost at once":        {[]Step{step("add-node", "a", ""), step("lose-node", "", "a, follower")}, "", "", ""},
		"one lost twice":          {[]Step{step("add-node", "a", ""), step("lose-node", "", "a, a")}, "", "timeline[1].action.node", `"a"`},
		"interrupted":             {[]Step{{Action: &Action{Name: "add-node", ID: "a", Interrupt: 2}}, step("add-node", "b", ""), step("remove-node", "", "")}, "a, b", "", ""},
		"interrupted and removed": {[]Step{{Action: &Action{Name: "add-node", ID: "a", Interrupt: 2}}, step("remove-node", "", "a")}, "", "timeline[1].action.node", `"a"`},
		"interrupted removal":     {[]Step{{Action: &Action{Name: "remove-node", Node: "2", Interrupt: 2}}}, "", "timeline[0].action.interrupt", "want the number of a step, from 1 on"},
		"interrupted upgrade":     {[]Step{{Action: &Action{Name: "upgrade", Node: "2", To: "v1.37.1", Interrupt: 2}}, {Action: &Action{Name: "upgrade", Node: "2", To: "v1.37.1", Interrupt: 2, Undo: true}}}, "", "", ""},
		"interrupted rotation":    {[]Step{{Action: &Action{Name: "rotate-ca", Node: "2", To: "use-new", Interrupt: 1, Undo: true}}}, "", "", ""},
		"interrupted at no step":  {[]Step{{Action: &Action{Name: "upgrade", Node: "2", To: "v1.37.1", Interrupt: -1}}}, "", "timeline[0].action.interrupt", "want the number of a step, from 1 on"},
		"undone without one":      {[]Step{{Action: &Action{Name: "upgrade", Node: "2", To: "v1.37.1", Undo: true}}}, "", "timeline[0].action.undo", "with interrupt can be rolled back"},
		"undone reconfiguration":  {[]Step{{Action: &Action{Name: "reconfigure", Node: "2", Args: draining, Interrupt: 1, Undo: true}}}, "", "timeline[0].action.undo", "only an upgrade or a rotate-ca"},
		"interrupted request":     {[]Step{{Action: &Action{Name: "ready", Interrupt: 1}}}, "", "timeline[0].action", "not a change of nodes"},
		"upgrade":                 {[]Step{inPlace("upgrade", "1", "v1.37.1", nil), inPlace("upgrade-etcd", "leader", "v3.6.16", nil)}, "", "", ""},
		"upgrade of an added one": {[]Step{step("add-node", "a", ""), inPlace("upgrade", "a", "v1.37.1", nil)}, "", "", ""},
		"upgrade to a minor":      {[]Step{inPlace("upgrade", "1", "v1.37", nil)}, "", "timeline[0].action.to", `"v1.37"`},
		"upgrade to nothing":      {[]Step{inPlace("upgrade", "1", "", nil)}, "", "timeline[0].action.to", `""`},
		"upgrade of no node":      {[]Step{inPlace("upgrade", "king!", "v1.37.1", nil)}, "", "timeline[0].action.node", "king!"},
		"upgrade of a gone one":   {[]Step{step("add-node", "a", ""), step("remove-node", "", "a"), inPlace("upgrade", "a", "v1.37.1", nil)}, "", "timeline[2].action.node", `"a"`},
		"reconfigure":             {[]Step{inPlace("reconfigure", "1", "", draining)}, "", "", ""},
		"reconfigure to nothing":  {[]Step{inPlace("reconfigure", "1", "", nil)}, "", "timeline[0].action.args", "want the arguments"},
		"reconfigure a stranger":  {[]Step{inPlace("reconfigure", "1", "", map[string]map[string]string{"kubelet": {"v": "1"}})}, "", "timeline[0].action.args.kubelet", "want one of"},
		"version of another":      {[]Step{inPlace("ready", "", "v1.37.1", nil)}, "", "timeline[0].action", "accepts neither"},
		"change that is not made": {[]Step{step("add-node", "a", "")}, "a, b", "requirements[0].params.changes", "there is a"},
	} {
		t.Run(name, func(t *testing.T) {
			e := Experiment{Name: "x", Timeline: test.steps, Checks: []record.Check{good}}
			if test.changes != "" {
				e.Checks = []record.Check{{Requirement: "X", Judge: "endpoints-follow", Bound: "T", Params: map[string]string{"changes": test.changes}}}
			}
			problems := e.Validate(Options{})
			switch {
			case test.want == "" && len(problems) > 0:
				t.Error(problems)
			case test.want != "" && (len(problems) != 1 || problems[0].Path != test.want || !strings.Contains(problems[0].Error(), test.text)):
				t.Errorf("got %v\nwant %s: …%s…", problems, test.want, test.text)
			}
		})
	}
}

// scaledCluster can be given a fourth node, behind which is the third one's API server.
type scaledCluster struct {
	*fakeCluster
	refuse  error
	removed []string
}

type fourthNode struct{ *fakeNode }

func (fourthNode) Name() string        { return "node-4" }
func (fourthNode) Address() netip.Addr { return netip.MustParseAddr("10.0.0.4") }

func (c *scaledCluster) Nodes() []framework.Node {
	all := c.fakeCluster.Nodes()
	for i, n := range c.nodes {
		if i == 3 {
			all[i] = fourthNode{n}
		}
	}
	return all
}

func (c *scaledCluster) Entrances() []framework.Entrance {
	all := slices.Clone(c.fakeCluster.Entrances())
	if len(c.nodes) > 3 {
		e := all[len(all)-1]
		e.Name, e.Node = "node-4", "node-4"
		all = append(all, e)
	}
	return all
}

func (c *scaledCluster) AddNode(context.Context) (framework.Node, error) {
	if c.refuse != nil {
		return nil, c.refuse
	}
	c.nodes = append(c.nodes, &fakeNode{Node: c.Cluster.Nodes()[2], pid: 100})
	return c.Nodes()[3], nil
}

func (c *scaledCluster) RemoveNode(_ context.Context, name string) error {
	c.removed = append(c.removed, name)
	c.nodes = c.nodes[:3]
	return nil
}

// scaledStack is a scaledCluster with real etcd members; the fourth node has the third one's.
type scaledStack struct {
	*scaledCluster
	etcd *stackedCluster
}

func (c scaledStack) EtcdConfig(node string) (clientv3.Config, error) {
	if node == "node-4" {
		node = "node-3"
	}
	return c.etcd.EtcdConfig(node)
}

func TestChangeNodes(t *testing.T) {
	t.Parallel()
	stacked := newStacked(t)
	c := scaledStack{&scaledCluster{fakeCluster: stacked.fakeCluster}, stacked}
	run, err := carryOut(t.Context(), t, c, Options{},
		Step{Action: &Action{Name: "add-node", ID: "fourth"}},
		Step{Inject: &Inject{ID: "k", Fault: "kill", Target: "scheduler/fourth"}},
		Step{Heal: "k"},
		Step{Action: &Action{Name: "remove-node", ID: "gone"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Nodes) != 2 || !slices.Equal(c.removed, []string{"node-4"}) {
		t.Fatalf("recorded %+v, removed %v", run.Nodes, c.removed)
	}
	joined, left := run.Nodes[0].V, run.Nodes[1].V
	if joined.Name != "fourth" || joined.Phase != record.NodeAdded || joined.Node.Name != "node-4" || joined.Node.Address != "10.0.0.4" ||
		joined.Effect < joined.Called || !slices.Contains(joined.Node.Components, "kube-apiserver") {
		t.Errorf("joined: %+v", joined)
	}
	if left.Name != "gone" || left.Phase != record.NodeRemoved || left.Node.Name != "node-4" || left.Effect < left.Called {
		t.Errorf("left: %+v", left)
	}
	if len(run.Faults) != 2 || run.Faults[0].V.Node != "node-4" {
		t.Errorf("the fault hit %+v", run.Faults)
	}
	for _, p := range run.Processes {
		if p.V.Node == "node-4" && (p.At < joined.Called || p.At > left.Effect) {
			t.Errorf("observed when it was not there: %+v", p)
		}
	}
	if !slices.ContainsFunc(run.Processes, func(p record.Timed[record.ProcessState]) bool { return p.V.Node == "node-4" }) {
		t.Error("the node that was added was not observed")
	}
}

// balancedCluster removes its third node, with the etcd member, and has a load balancer.
type balancedCluster struct {
	*stackedCluster
	keeps    bool // the balancer keeps the node that is removed
	mu       sync.Mutex
	backends []framework.Backend // guarded by mu
}

func (c *balancedCluster) Backends(context.Context) ([]framework.Backend, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.backends), nil
}

func (c *balancedCluster) AddNode(context.Context) (framework.Node, error) {
	return nil, errors.New("it does not grow")
}

func (c *balancedCluster) RemoveNode(ctx context.Context, name string) error {
	err := framework.DoStep(ctx, name, record.StepUnbalance, func(context.Context) (string, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.keeps {
			c.backends = slices.Clone(c.backends[:2])
		}
		return "the load balancer has two backends", nil
	})
	if err != nil {
		return err
	}
	err = framework.DoStep(ctx, name, record.StepRemove, func(ctx context.Context) (string, error) {
		return "no member lists it", c.removeMember(ctx, name)
	})
	if err != nil {
		return err
	}
	return framework.DoStep(ctx, name, record.StepDiscard, func(context.Context) (string, error) {
		c.nodes = c.nodes[:2]
		return "it is gone", nil
	})
}

// removeMember repeats a removal that etcd refuses, which it does until the members have been
// connected for 5 s, until the member is not listed any more.
func (c *balancedCluster) removeMember(ctx context.Context, name string) error {
	etcd, err := client.NewEtcd(c, "node-1")
	if err != nil {
		return err
	}
	defer etcd.Close()
	for client.Pause(ctx, 100*time.Millisecond) {
		members, err := etcd.MemberList(ctx)
		if err != nil {
			continue
		}
		found := false
		for _, m := range members.Members {
			if m.Name == name {
				found = true
				_, _ = etcd.MemberRemove(ctx, m.ID)
			}
		}
		if !found {
			return nil
		}
	}
	return context.Cause(ctx)
}

// The record has what the load balancer reports after a node was removed, which shows whether the
// step was made that the provider reports.
func TestBalancerAfterRemoval(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keeps bool
		want  judge.Verdict
		says  string
	}{
		"it keeps the node": {true, judge.Fail, "must remove the node from the load balancer before its etcd member is removed"},
		"it loses the node": {false, judge.Pass, "the steps came in the required order"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &balancedCluster{stackedCluster: newStacked(t), keeps: test.keeps}
			for _, n := range c.Nodes() {
				c.backends = append(c.backends, framework.Backend{Name: n.Name(), Up: true, Since: time.Now()})
			}
			run, err := carryOut(t.Context(), t, c, Options{}, Step{Wait: "3s"}, Step{Action: &Action{Name: "remove-node", ID: "gone", Node: "3"}}, Step{Wait: "3s"})
			if err != nil {
				t.Fatal(err)
			}
			if len(run.Nodes) != 1 || run.Nodes[0].V.Phase != record.NodeRemoved {
				t.Fatalf("recorded %+v", run.Nodes)
			}
			var after []string
			for _, b := range run.Backends {
				if b.V.Asked > run.Nodes[0].At {
					after = append(after, b.V.Name)
				}
			}
			if want := framework.NodeNames(c.fakeCluster.Cluster.Nodes()); !test.keeps && !slices.Equal(after, want[:2]) || test.keeps && !slices.Equal(after, want) {
				t.Errorf("the backends after the removal were %v", after)
			}
			run.Meta.Checks = []record.Check{{Requirement: "HA-MB-003", Judge: "members-follow"}}
			run.Harness = []record.Timed[record.Harness]{{At: run.EndAt}} // how loaded this machine is does not matter
			if result := judge.Evaluate(run)[0]; result.Verdict != test.want || !strings.Contains(result.Sentence, test.says) {
				t.Errorf("%s: %s", result.Verdict, result.Sentence)
			}
		})
	}
}

// An addition that completes before the step at which it was to be interrupted is undone, so that
// the rest is about the same nodes on every provider.
func TestInterruptedTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &scaledCluster{fakeCluster: newFake(t)}
		run, err := carryOut(t.Context(), t, c, Options{}, Step{Action: &Action{Name: "add-node", ID: "cut", Interrupt: 9}})
		if err != nil {
			t.Fatal(err)
		}
		if len(run.Nodes) != 2 || run.Nodes[0].V.Phase != record.NodeAdded || run.Nodes[1].V.Phase != record.NodeRemoved ||
			run.Nodes[1].V.Name != "cut" || !slices.Equal(c.removed, []string{"node-4"}) {
			t.Errorf("recorded %+v, removed %v", run.Nodes, c.removed)
		}
	})
}

func TestNodesThatCannotBeChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		add := Step{Action: &Action{Name: "add-node", ID: "fourth"}}
		fake := newFake(t)
		for name, test := range map[string]struct {
			c             framework.Cluster
			step          Step
			says, missing string
		}{
			"refused": {&scaledCluster{fakeCluster: fake, refuse: errors.New("no quorum")}, add, "no quorum", ""},
			"not undone": {&scaledCluster{fakeCluster: fake, refuse: fmt.Errorf("%w: %w", errCutShort, framework.ErrNotUndone)},
				Step{Action: &Action{Name: "add-node", ID: "fourth", Interrupt: 1}}, "not all of it could be undone", ""},
			"not this one":  {fake, add, "needs the ability Scaler", "Scaler"},
			"without power": {&scaledCluster{fakeCluster: fake}, Step{Action: &Action{Name: "lose-node", Node: "1"}}, "PowerSwitch", "PowerSwitch"},
		} {
			run, err := carryOut(t.Context(), t, test.c, Options{}, test.step, Step{Wait: "1h"})
			if err != nil {
				t.Fatal(name, err)
			}
			if len(run.Nodes) != 1 || run.Nodes[0].V.Phase != record.NodeFailed || run.Nodes[0].V.Missing != test.missing || !strings.Contains(run.Nodes[0].V.Error, test.says) {
				t.Errorf("%s: %+v", name, run.Nodes)
			}
		}
	})
}

// reasoned is a cluster that says why it lacks abilities, as its nodes do.
type reasoned struct{ *scaledCluster }

func (reasoned) WhyNot(ability string) string { return ability + " is for its owner" }

func (c reasoned) Nodes() (all []framework.Node) {
	for _, n := range c.scaledCluster.Nodes() {
		all = append(all, reasonedNode{n.(*fakeNode)})
	}
	return all
}

type reasonedNode struct{ *fakeNode }

func (reasonedNode) WhyNot(ability string) string { return ability + " is for its owner" }

// If the cluster lacks the ability for a later change of nodes, none is changed, and the checks
// about changes are not applicable, with the reason that the cluster gives, if it gives one.
func TestForeseeChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFake(t)
		for name, test := range map[string]struct {
			later   Step
			missing string
			place   bool // it would change nodes in place
		}{
			"no reason":   {Step{Action: &Action{Name: "upgrade", ID: "again", Node: "1", To: "v1.37.1"}}, "Upgrader", true},
			"replacement": {Step{Action: &Action{Name: "replace-node", ID: "again", Node: "gone"}}, "NodeReplacer", false},
			"upgrade":     {Step{Action: &Action{Name: "upgrade", ID: "again", Node: "1", To: "v1.37.1"}}, "Upgrader", true},
			"etcd":        {Step{Action: &Action{Name: "upgrade-etcd", ID: "again", Node: "1", To: "v3.7.3"}}, "EtcdUpgrader", true},
			"reconfigure": {Step{Action: &Action{Name: "reconfigure", ID: "again", Node: "1", Args: map[string]map[string]string{"etcd": {"a": "b"}}}}, "Reconfigurer", true},
			"rotation":    {Step{Action: &Action{Name: "rotate-certificates", ID: "again", Node: "1"}}, "CertificateRotator", true},
			"CAs":         {Step{Action: &Action{Name: "rotate-ca", ID: "again", Node: "1", To: "trust-both"}}, "CARotator", true},
			"power":       {Step{Action: &Action{Name: "lose-node", ID: "again", Node: "1"}}, "PowerSwitch", false},
		} {
			c := &scaledCluster{fakeCluster: fake}
			var cluster framework.Cluster = reasoned{c}
			says := test.missing + " is for its owner"
			if name == "no reason" {
				cluster, says = c, "the ability "+test.missing+", which cluster apitest does not have with this provider"
			}
			run, err := carryOut(t.Context(), t, cluster, Options{}, Step{Action: &Action{Name: "ready"}}, Step{Action: &Action{Name: "remove-node", ID: "gone", Node: "3"}}, test.later)
			if err != nil {
				t.Fatal(name, err)
			}
			all := slices.Concat(run.Nodes, run.Changes)
			if len(all) != 1 || all[0].V.Phase != record.NodeFailed || all[0].V.Name != "again" || all[0].V.Missing != test.missing || (len(run.Changes) == 1) != test.place {
				t.Errorf("%s: recorded %+v", name, all)
			}
			if len(c.removed) > 0 || !contains(phases(run), "action ready") {
				t.Errorf("%s: removed %v; %q", name, c.removed, phases(run))
			}
			run.Meta.NoAccess = nil // etcd members, which this cluster lacks
			run.Meta.Checks = []record.Check{{Requirement: "HA-UP-001", Judge: "changed-one-by-one"},
				{Requirement: "HA-MB-003", Judge: "members-follow", Params: map[string]string{"changes": "gone"}}}
			for _, result := range judge.Evaluate(run)[:2] {
				if result.Verdict != judge.NotApplicable || !strings.Contains(result.Sentence, says) {
					t.Errorf("%s: %s: %s: %s", name, result.Judge, result.Verdict, result.Sentence)
				}
			}
		}
	})
}

// distributed is a node of a distribution.
type distributed struct{ framework.Node }

func (distributed) Name() string                      { return "node-1" }
func (distributed) Address() netip.Addr               { return netip.MustParseAddr("10.0.0.1") }
func (distributed) Components() []framework.Component { return nil }
func (distributed) Distribution() framework.Distribution {
	return framework.Distribution{Name: "kubeadm", Digest: "0a"}
}

// The record has the distribution profile of a node that holdfast found, and none of one that it
// made.
func TestNodeEntryDistribution(t *testing.T) {
	if got := nodeEntry(distributed{}); got.Distribution == nil || *got.Distribution != (record.Distribution{Name: "kubeadm", Digest: "0a"}) {
		t.Errorf("%+v", got)
	}
	if got := nodeEntry(made{}); got.Distribution != nil {
		t.Errorf("%+v", got.Distribution)
	}
}

// made is a node that holdfast made.
type made struct{ framework.Node }

func (made) Name() string                      { return "node-1" }
func (made) Address() netip.Addr               { return netip.MustParseAddr("10.0.0.1") }
func (made) Components() []framework.Component { return nil }
