package fault

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/undo"
)

func TestRestoreSnapshot(t *testing.T) {
	t.Parallel()
	c := operateEtcd(t)
	target := c.resolve(t, "etcd/any")
	p := Params{TTL: ttl, Values: map[string]string{"age": "0s", "down": "100ms"}}
	c.numb = true
	short, cancel := withTimeout(t, 3*startTime)
	defer cancel()
	i, err := RestoreSnapshot.Inject(short, c, target, p)
	if err != nil || i.Proof().Proven {
		t.Fatalf("a snapshot that was not restored is proven: %v, %v", i, err)
	}
	c.numb = false
	i, err = RestoreSnapshot.Inject(t.Context(), c, target, p)
	if err != nil || !i.Proof().Proven {
		t.Fatalf("%v, %v", i, err)
	}
	t.Log(i.Proof().What)
	before := c.nodes[1].processes["kube-apiserver"].PID
	healed, err := i.Heal(t.Context())
	if err != nil || !healed.Proven || !strings.Contains(healed.What, "/readyz through entrance node-3") {
		t.Fatalf("%+v, %v", healed, err)
	}
	if now := c.nodes[1].processes["kube-apiserver"].PID; now == before {
		t.Error("an API server that knows of the lost future was not restarted")
	}
	if err := RestoreSnapshot.Check(c, target, Params{TTL: ttl, Values: map[string]string{"age": "1h"}}); err == nil {
		t.Error("age=1h: accepted")
	}
}

// inUndo is a cluster as the nodes see it that undo a fault.
type inUndo struct {
	*fakeCluster
	framework.EtcdAccess
}

// TestRestoreRestartsOnce: healing restarts what runs when it begins, also what was started since
// the fault, and nothing again if it is tried again.
func TestRestoreRestartsOnce(t *testing.T) {
	inBubble(t, "", func(t *testing.T, c *fakeCluster) {
		r := &rewind{cluster: inUndo{c, nil}}
		for range 3 {
			if err := r.restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		if c.asked != 9 || state(c, 1, framework.Scheduler).Restarts != 1 {
			t.Errorf("%d processes of 9 were ended, %+v", c.asked, state(c, 1, framework.Scheduler))
		}
	})
}

// TestRestorePromise: what has run since before the fault is killed, and nothing once that was
// restarted, also if healing is tried again.
func TestRestorePromise(t *testing.T) {
	inBubble(t, "", func(t *testing.T, c *fakeCluster) {
		key, now := "kube-scheduler/node-2", state(c, 1, framework.Scheduler)
		before, err := undo.Caching(t.Context(), c.Nodes())
		if err != nil || len(before) != 9 || before[key] != now.ID() {
			t.Fatalf("what runs is %v, %v", before, err)
		}
		for _, u := range []framework.Undoing{{Restart: map[string]string{key: now.ID()}}, {Restart: before}} {
			for range 2 {
				if err := undo.Do(t.Context(), inUndo{c, nil}, u); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
			}
			if c.asked != len(u.Restart) || state(c, 1, framework.Scheduler).Restarts != 1 {
				t.Errorf("%d processes were killed, want %d; %+v", c.asked, len(u.Restart), state(c, 1, framework.Scheduler))
			}
		}
	})
}
