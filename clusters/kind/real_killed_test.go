package kind

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/kind/engine"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// injecting makes a copy of the test one that injects a fault, and then waits to be
// killed. What it holds is an injection, as JSON.
const injecting = "HOLDFAST_TEST_KIND_INJECT"

type injection struct {
	Cluster *clusters.Cluster
	Subnet  netip.Prefix
	Fault   string
	On      string
	Values  map[string]string
	TTL     time.Duration
}

// active is the line that reports that a fault is.
const active = "active: "

func injectAndWait(encoded string) error {
	var i injection
	if err := json.Unmarshal([]byte(encoded), &i); err != nil {
		return err
	}
	ctx := context.Background()
	e, err := engine.Find(ctx)
	if err != nil {
		return err
	}
	c := newCluster(i.Cluster, Options{Engine: e.Host, Dir: os.TempDir()})
	c.network = network{name: networkName(c.Name()), subnet: i.Subnet}
	if err := c.find(ctx); err != nil {
		return err
	}
	entry, err := fault.NewBoard(c, func(fault.Entry) {}).Inject(ctx, i.Fault, i.On, fault.Params{TTL: i.TTL, Values: i.Values})
	if err != nil {
		return err
	}
	if !entry.Effect.Proven {
		return fmt.Errorf("not proven: %s", entry.Effect.What)
	}
	fmt.Println(active + entry.Effect.What)
	time.Sleep(time.Minute)
	return errors.New("nobody has killed it")
}

// testHarnessKilled kills the harness in the middle of each fault of the network, of a pause, and
// of faults that the nodes have promised to undo: the nodes heal it in time.
func testHarnessKilled(t *testing.T, c *Cluster) {
	const (
		ttl   = 8 * time.Second
		slack = 10 * time.Second
		// A promise is kept some seconds after the time to live, and a member that joins again is
		// started when its pod has ended.
		promised = 50 * time.Second
	)
	for _, test := range []struct {
		fault, on string
		values    map[string]string
	}{
		{"isolate", "node/leader", nil},
		{"isolate-etcd", "etcd/leader", nil},
		{"cut", "etcd/leader", map[string]string{"direction": "in", "port": "etcd-peer"}},
		{"split", "node/1", nil},
		{"black-hole", "apiserver/2", nil},
		{"reset", "apiserver/1", nil},
		{"loss", "node/1", map[string]string{"share": "30%"}},
		{"latency", "node/1", map[string]string{"delay": "20ms", "peer": "2,3"}},
		{"bandwidth", "node/2", map[string]string{"rate": "1M", "peer": "1,3"}},
		{"duplicate", "node/2", map[string]string{"share": "30%", "peer": "1,3"}},
		{"reorder", "node/3", map[string]string{"share": "30%", "peer": "1,2"}},
		{"corrupt", "node/3", map[string]string{"share": "5%", "peer": "1,2"}},
		{"pause", "node/2", nil},
		{"alarm", "etcd/2", nil},
		{"lease-steal", "kcm/active", nil},
		{"remove-member", "etcd/2", nil},
	} {
		t.Run(test.fault+" "+test.on, func(t *testing.T) {
			what, began := killInTheMiddle(t, injection{c.spec, c.network.subnet, test.fault, test.on, test.values, ttl})
			t.Log(what)
			left := func(ctx context.Context) (all []string, err error) {
				for _, n := range c.controlPlane() {
					if paused, err := n.Paused(ctx); err != nil || paused {
						all = append(all, n.name+" is paused")
						continue
					}
					are, err := n.Client.Active(ctx)
					if err != nil {
						return nil, err
					}
					all = append(all, are...)
				}
				return all, nil
			}
			if all, err := left(t.Context()); err != nil || len(all) == 0 {
				t.Fatalf("active: %v, %v", all, err)
			}
			whileAway(t, "it is active", func(ctx context.Context) (bool, error) {
				all, err := left(ctx)
				return len(all) > 0, err
			})
			limit := ttl + slack
			if f, err := fault.Find(test.fault); err == nil && f.Promised {
				limit = ttl + promised
			}
			if took := time.Since(began); took > limit {
				t.Errorf("it was active for %s", took)
			}
			if err := c.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// killInTheMiddle has a copy of the test inject a fault, kills it, and returns the proof
// of effect and when that was there.
func killInTheMiddle(t *testing.T, i injection) (what string, at time.Time) {
	t.Helper()
	encoded, err := json.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestForReal$")
	cmd.Env = append(os.Environ(), injecting+"="+string(encoded))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said = append(said, lines.Text())
		if strings.HasPrefix(lines.Text(), active) {
			break
		}
	}
	at = time.Now()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if len(said) == 0 || !strings.HasPrefix(said[len(said)-1], active) {
		t.Fatal(strings.Join(said, "\n"))
	}
	return said[len(said)-1], at
}

// whileAway waits until a node that is away is back on its own.
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
