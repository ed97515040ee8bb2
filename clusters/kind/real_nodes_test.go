package kind

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/kind/engine"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// pausing makes a copy of the test one that pauses the container of that name, and then
// waits to be killed.
const pausing = "HOLDFAST_TEST_KIND_PAUSE"

func pauseAndWait(name string) error {
	e, err := engine.Find(context.Background())
	if err != nil {
		return err
	}
	n := &node{name: name, cluster: &Cluster{o: Options{Engine: e.Host}, cli: docker.CLI{Host: e.Host}}}
	if err := n.Pause(context.Background(), 8*time.Second); err != nil {
		return err
	}
	fmt.Println("paused")
	time.Sleep(time.Minute)
	return errors.New("nobody has killed it")
}

// whileAway waits until a node that is away is back by itself.
func whileAway(t *testing.T, what string, away func(context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := await.Until(ctx, 500*time.Millisecond, func(ctx context.Context) error {
		if is, err := away(ctx); err != nil || is {
			return errors.Join(errors.New(what), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// testPauseOutlivesHarness kills the one who has paused a node: its guard has it go on.
func testPauseOutlivesHarness(t *testing.T, c *Cluster) {
	n := c.controlPlane()[1]
	cmd := exec.Command(os.Args[0], "-test.run=^TestForReal$")
	cmd.Env = append(os.Environ(), pausing+"="+n.name)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil || line != "paused\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if paused, err := n.Paused(t.Context()); err != nil || !paused {
		t.Fatalf("paused: %t, %v", paused, err)
	}
	whileAway(t, "it is paused", n.Paused)
	if err := c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// testWipeEnds leaves data that were wiped to the agent, which puts them back in time.
func testWipeEnds(t *testing.T, c *Cluster) {
	n := c.controlPlane()[1]
	had, err := n.ListDisk(t.Context())
	if err != nil || len(had) == 0 {
		t.Fatal(had, err)
	}
	if _, err := n.WipeDisk(t.Context(), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if files, err := n.ListDisk(t.Context()); err != nil || len(files) >= len(had) {
		t.Errorf("%v, %v", files, err)
	}
	whileAway(t, "its data are away", func(ctx context.Context) (bool, error) {
		files, err := n.ListDisk(ctx)
		return !slices.Contains(files, "member/snap/db"), err
	})
	if err := c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// testNodes adds a node, breaks it and removes it, and replaces one that has lost its
// power for good.
func testNodes(t *testing.T, c *Cluster) {
	add := func() framework.Node {
		t.Helper()
		began := time.Now()
		n, err := c.AddNode(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s (%s) added after %s", n.Name(), n.Address(), time.Since(began).Round(time.Second))
		if err := c.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		return n
	}
	remove := func(name string) {
		t.Helper()
		began := time.Now()
		if err := c.RemoveNode(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s removed after %s", name, time.Since(began).Round(time.Second))
		if err := c.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		there, err := c.cli.List(t.Context(), clusterLabel+"="+c.Name())
		if err != nil || slices.Contains(there, name) {
			t.Errorf("containers: %v, %v", there, err)
		}
	}
	had := len(c.Nodes())
	first := add()
	if members, err := c.etcdMembers().List(t.Context()); err != nil || len(members) != had+1 || members[had].IsLearner {
		t.Errorf("%v, %v", members, err)
	}
	board := fault.NewBoard(c, func(fault.Entry) {})
	for _, name := range []string{"kill", "pause"} {
		on := map[string]string{"kill": "etcd/", "pause": "node/"}[name] + first.Name()
		e, err := board.Inject(t.Context(), name, on, fault.Params{TTL: time.Minute})
		if err != nil || !e.Effect.Proven {
			t.Fatalf("%+v, %v", e, err)
		}
		if healed, err := board.Heal(t.Context(), e.ID); err != nil || !healed[0].Healing.Proven {
			t.Fatalf("%+v, %v", healed, err)
		}
	}
	remove(first.Name())

	lost := c.controlPlane()[0] // kind's own first one, too
	if err := lost.PowerOff(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNode(t.Context()); err == nil {
		t.Error("a node is added while a member is down")
	} else {
		t.Log(err)
	}
	remove(lost.name)
	second := add()
	if second.Name() == first.Name() || second.Address() == first.Address() || second.Address() == lost.address {
		t.Errorf("%s %s is not new", second.Name(), second.Address())
	}
	if len(c.Nodes()) != had {
		t.Errorf("%d nodes", len(c.Nodes()))
	}
}
