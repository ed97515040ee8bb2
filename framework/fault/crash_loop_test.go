package fault

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestCrashLoop(t *testing.T) {
	for name, already := range map[string]func(*fakeProcess){
		"in a crash loop": func(p *fakeProcess) { p.CrashLooped = true },
		"not running":     func(p *fakeProcess) { p.PID = 0 },
	} {
		for _, c := range []framework.Component{framework.Scheduler, framework.NodeAgent} {
			t.Run(name+", "+string(c), func(t *testing.T) {
				proofs{
					fault:   CrashLoop,
					target:  component("node-2", c),
					params:  map[string]string{"after": "500ms"},
					broken:  func(f *fakeCluster) bool { return state(f, 1, c).CrashLooped },
					already: func(f *fakeCluster) { already(f.nodes[1].processes[c]) },
				}.run(t)
			})
		}
	}
}

// One kill is not a crash loop, and a process that lives on shows its end.
func TestCrashLoopProofs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.Scheduler)
		target := component("node-1", framework.Scheduler)
		r := requestOf(t, CrashLoop, c, target, nil)
		after := Value[time.Duration](r, "after")
		proc, err := r.process()
		if err != nil || after != afterUnset {
			t.Fatal(after, err)
		}
		old := state(c, 0, framework.Scheduler)
		n := c.nodes[0]
		if err := n.Kill(t.Context(), framework.Scheduler, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if held, seen := proc.killedTwice(old)(t.Context()); held || !strings.Contains(seen, "exited 1 times") {
			t.Errorf("one kill: %v, %s", held, seen)
		}
		if err := n.Kill(t.Context(), framework.Scheduler, 0); err != nil {
			t.Fatal(err)
		}
		if held, seen := proc.killedTwice(old)(t.Context()); !held {
			t.Errorf("two kills: %v, %s", held, seen)
		}
		time.Sleep(time.Minute)
		lives := proc.outlives(time.Second)
		if held, seen := lives(t.Context()); held {
			t.Errorf("seen for the first time: %s", seen)
		}
		time.Sleep(2 * time.Second)
		if held, seen := lives(t.Context()); !held {
			t.Errorf("seen for 2 s: %s", seen)
		}
	})
}

func TestCrashLoopCheck(t *testing.T) {
	c := newFake(framework.Scheduler)
	for _, after := range []string{"-1s", "61s", "often"} {
		err := CrashLoop.Check(c, component("node-1", framework.Scheduler), Params{TTL: ttl, Values: map[string]string{"after": after}})
		if err == nil || !strings.Contains(err.Error(), "from 0s to 1m") {
			t.Errorf("%s: %v", after, err)
		}
	}
	if err := CrashLoop.Check(c, component("node-1", framework.Scheduler), Params{TTL: time.Second}); err == nil || !strings.Contains(err.Error(), "shorter than the time to live, 1s") {
		t.Errorf("its second kill cannot come in time: %v", err)
	}
}
