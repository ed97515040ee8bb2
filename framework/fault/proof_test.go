package fault

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// proofs runs the common tests on one fault. Its time is synthetic, so that the longest limit
// passes immediately.
type proofs struct {
	fault  *Fault
	target Target
	params map[string]string
	// already puts the target of a fake cluster into the faulted state.
	already func(*fakeCluster)
	// broken reports whether the fault is active.
	broken func(*fakeCluster) bool
	// calls is how many requests to the provider one injection takes; 0 means one.
	calls int
}

const ttl = 5 * time.Minute

func (p proofs) inject(t *testing.T, c *fakeCluster) Injection {
	t.Helper()
	i, err := p.fault.Inject(t.Context(), c, p.target, Params{TTL: ttl, Values: p.params})
	if err != nil {
		t.Fatalf("inject: %v", err)
	}
	return i
}

func (p proofs) run(t *testing.T) {
	// Components that run for a while already answer.
	bubble := func(name string, f func(*testing.T, *fakeCluster)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFake(framework.APIServer, framework.ControllerManager, framework.Scheduler, framework.Etcd)
				time.Sleep(time.Minute)
				f(t, c)
			})
		})
	}
	bubble("proof and healing", func(t *testing.T, c *fakeCluster) {
		i := p.inject(t, c)
		if proof := i.Proof(); !proof.Proven || !p.broken(c) || proof.What == "" || proof.Effect.Before(proof.Called) || proof.Effect.Sub(proof.Called) > time.Second {
			t.Fatalf("injected: %+v, broken %v", proof, p.broken(c))
		}
		if !reflect.DeepEqual(i.Target(), p.target) {
			t.Errorf("target %+v", i.Target())
		}
		time.Sleep(time.Second)
		healed, err := i.Heal(t.Context())
		if err != nil || !healed.Proven || p.broken(c) || healed.Effect.Before(healed.Called) {
			t.Fatalf("healed: %+v, %v, broken %v", healed, err, p.broken(c))
		}
		if again, err := i.Heal(t.Context()); err != nil || again != healed {
			t.Errorf("healed again: %+v, %v", again, err)
		}
		t.Logf("%s / %s", i.Proof().What, healed.What)
	})
	bubble("no effect, no proof", func(t *testing.T, c *fakeCluster) {
		c.inert = true
		i := p.inject(t, c)
		if i.Proof().Proven || c.asked != max(1, p.calls) {
			t.Fatalf("an inert fault is proven: %+v, asked %d times", i.Proof(), c.asked)
		}
		t.Log(i.Proof().What)
	})
	bubble("no healing, no proof", func(t *testing.T, c *fakeCluster) {
		if p.params["restart"] == "true" {
			t.Skip("the process watcher heals it; see its own test")
		}
		i := p.inject(t, c)
		c.stubborn = true
		healed, err := i.Heal(t.Context())
		if err != nil || healed.Proven {
			t.Fatalf("healing that did nothing: %+v, %v", healed, err)
		}
		t.Log(healed.What)
		c.stubborn = false
		if healed, err = i.Heal(t.Context()); err != nil || !healed.Proven {
			t.Errorf("healing that works, after one that did not: %+v, %v", healed, err)
		}
	})
	bubble("already so", p.alreadySo)
	bubble("dead man", func(t *testing.T, c *fakeCluster) {
		p.inject(t, c)
		time.Sleep(ttl + time.Second)
		synctest.Wait()
		if p.broken(c) {
			t.Fatal("the fault outlived its time to live")
		}
	})
	bubble("a request that fails is undone", func(t *testing.T, c *fakeCluster) {
		c.refuses = errors.New("the agent lost its voice")
		i, err := p.fault.Inject(t.Context(), c, p.target, Params{TTL: ttl, Values: p.params})
		if i != nil || !errors.Is(err, c.refuses) {
			t.Fatalf("injection %v, error %v", i, err)
		}
		if c.cuts == nil && p.broken(c) { // a cut without a handle cannot be undone
			t.Error("what failed halfway is still active")
		}
	})
	bubble("a context that ends leaves no proof and can be healed", func(t *testing.T, c *fakeCluster) {
		c.inert = true
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		i, err := p.fault.Inject(ctx, c, p.target, Params{TTL: ttl, Values: p.params})
		if err != nil || i.Proof().Proven {
			t.Fatalf("%v, %v", i, err)
		}
	})
	bubble("refused before anything is touched", func(t *testing.T, c *fakeCluster) {
		for name, bad := range map[string]Params{
			"no time to live":       {Values: p.params},
			"negative time to live": {TTL: -1, Values: p.params},
			"unknown parameter":     {TTL: ttl, Values: map[string]string{"speed": "high"}},
		} {
			if err := p.fault.Check(c, p.target, bad); err == nil {
				t.Errorf("%s: accepted by Check", name)
			}
			if i, err := p.fault.Inject(t.Context(), c, p.target, bad); err == nil || i != nil {
				t.Errorf("%s: accepted by Inject", name)
			}
		}
		nobody := p.target
		nobody.Node = "node-9"
		if err := p.fault.Check(c, nobody, Params{TTL: ttl, Values: p.params}); err == nil || !strings.Contains(err.Error(), "node-1, node-2, node-3") {
			t.Errorf("unknown node: %v", err)
		}
		if err := p.fault.Check(bareCluster{c}, p.target, Params{TTL: ttl, Values: p.params}); !errors.As(err, new(*MissingAbility)) {
			t.Errorf("a provider without abilities: %v", err)
		}
		if err := p.fault.Check(c, p.target, Params{TTL: ttl, Values: p.params}); err != nil {
			t.Errorf("good parameters: %v", err)
		}
		if c.asked != 0 {
			t.Errorf("asked %d times", c.asked)
		}
	})
}

// alreadySo checks that nothing is injected into what is in the state already.
func (p proofs) alreadySo(t *testing.T, c *fakeCluster) {
	p.already(c)
	i := p.inject(t, c)
	if i.Proof().Proven || !strings.Contains(i.Proof().What, "nothing was injected") || c.asked != 0 {
		t.Fatalf("injected into what was faulted already: %+v, asked %d times", i.Proof(), c.asked)
	}
	was := p.broken(c)
	if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven || p.broken(c) != was {
		t.Errorf("healing must not touch what it did not break: %+v, %v", healed, err)
	}
	t.Log(i.Proof().What)
}

// bareCluster and bareNode have no ability.
type bareCluster struct{ framework.Cluster }

type bareNode struct{ framework.Node }

func (c bareCluster) Nodes() []framework.Node {
	var all []framework.Node
	for _, n := range c.Cluster.Nodes() {
		all = append(all, bareNode{n})
	}
	return all
}

func component(node string, c framework.Component) Target {
	return Target{Asked: string(c) + "/" + node, Node: node, Component: c}
}

func wholeTarget(node string) Target { return Target{Asked: "node/" + node, Node: node} }

func state(c *fakeCluster, node int, comp framework.Component) framework.Process {
	p, _ := c.nodes[node].Process(context.Background(), comp)
	return p
}

func requestOf(t *testing.T, f *Fault, c framework.Cluster, target Target, values map[string]string) Request {
	t.Helper()
	r, err := f.request(c, target, Params{TTL: ttl, Values: values})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAll(t *testing.T) {
	for i, f := range All() {
		if i > 0 && All()[i-1].Name >= f.Name {
			t.Errorf("%s is out of order", f.Name)
		}
		if got, err := Find(f.Name); err != nil || got != f {
			t.Errorf("Find(%s) = %v, %v", f.Name, got, err)
		}
		if f.Summary == "" || len(f.Targets) == 0 || len(f.Needs) == 0 || f.Example == "" || len(f.EffectsWith(nil)) == 0 {
			t.Errorf("%s: incomplete: %+v", f.Name, f)
		}
		target, _, _ := strings.Cut(f.Example, " ")
		if _, err := parseTarget(target); err != nil {
			t.Errorf("%s: example: %v", f.Name, err)
		}
	}
	if f, err := Find("meteor"); err == nil || !strings.Contains(err.Error(), `"meteor" is not a fault: want one of alarm, `) {
		t.Errorf("there is a fault %v, %v", f, err)
	}
}

// Judges go by these effects.
func TestEffects(t *testing.T) {
	restart := map[string]string{"restart": "true"}
	for _, tc := range []struct {
		fault  *Fault
		values map[string]string
		want   []record.Effect
	}{
		{Kill, nil, []record.Effect{record.EffectDown}},
		{Kill, restart, []record.Effect{record.EffectRestarted}},
		{Stop, nil, []record.Effect{record.EffectDown}},
		{Stop, restart, []record.Effect{record.EffectRestarted}},
		{Restart, nil, []record.Effect{record.EffectRestarted}},
		{CrashLoop, nil, []record.Effect{record.EffectRestarted}},
		{Freeze, nil, []record.Effect{record.EffectFrozen}},
		{Pause, nil, []record.Effect{record.EffectFrozen}},
		{PowerOff, nil, []record.Effect{record.EffectDown, record.EffectPower}},
		{Reboot, nil, []record.Effect{record.EffectRestarted, record.EffectPower}},
		{Isolate, nil, []record.Effect{record.EffectNetwork, record.EffectIsolated}},
		{IsolateEtcd, nil, []record.Effect{record.EffectNetwork, record.EffectIsolated}},
		{Isolate, map[string]string{"keep": "harness, balancer"}, []record.Effect{record.EffectNetwork, record.EffectIsolated}},
		{Isolate, map[string]string{"keep": "harness,node-2"}, []record.Effect{record.EffectNetwork, record.EffectPartitioned}},
		{Isolate, map[string]string{"flap": "1s/4s"}, []record.Effect{record.EffectNetwork, record.EffectPartitioned}},
		{IsolateEtcd, map[string]string{"flap": "1s/4s"}, []record.Effect{record.EffectNetwork, record.EffectPartitioned}},
		{Split, nil, []record.Effect{record.EffectNetwork, record.EffectPartitioned}},
		{BlackHole, nil, []record.Effect{record.EffectNetwork, record.EffectPartitioned}},
		{Cut, nil, []record.Effect{record.EffectNetwork}},
		{Latency, nil, []record.Effect{record.EffectNetwork}},
		{RemoveMember, nil, []record.Effect{record.EffectRemoved}},
		{Compact, nil, []record.Effect{record.EffectCompacted}},
		{RestoreSnapshot, nil, []record.Effect{record.EffectRestored}},
	} {
		if got := tc.fault.EffectsWith(tc.values); !slices.Equal(got, tc.want) {
			t.Errorf("%s %v: %v, want %v", tc.fault.Name, tc.values, got, tc.want)
		}
	}
}

// meteor is a fault of a program's own.
var meteor = &Fault{Name: "meteor"}

func TestFindOwn(t *testing.T) {
	if f, err := Find("meteor", meteor); err != nil || f != meteor {
		t.Error(f, err)
	}
	if f, err := Find("kill", meteor); err != nil || f != Kill {
		t.Error(f, err)
	}
	if _, err := Find("meteors", meteor); err == nil || !strings.Contains(err.Error(), ", webhook-hang, meteor") {
		t.Error(err)
	}
	for _, own := range [][]*Fault{{Kill}, {meteor, meteor}} {
		name := own[0].Name
		if _, err := Find(name, own...); err == nil || !strings.Contains(err.Error(), "two faults have the name") {
			t.Error(err)
		}
	}
}
