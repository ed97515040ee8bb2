package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

const scaleNamespace = "/api/v1/namespaces/default/configmaps"

// listedAddresses returns what the Endpoints of the kubernetes service hold through an
// entrance, sorted.
func listedAddresses(t *testing.T, c *Cluster, e framework.Entrance) []string {
	t.Helper()
	var list []string
	_, err := await.API(t.Context(), e, "/api/v1/namespaces/default/endpoints/kubernetes", func(b []byte) error {
		var ep struct {
			Subsets []struct{ Addresses []struct{ IP string } }
		}
		if err := json.Unmarshal(b, &ep); err != nil {
			return err
		}
		list = nil
		for _, s := range ep.Subsets {
			for _, a := range s.Addresses {
				list = append(list, a.IP)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

// followed waits until every entrance lists exactly the existing nodes.
func followed(t *testing.T, c *Cluster) {
	t.Helper()
	var want []string
	for _, n := range c.Nodes() {
		want = append(want, n.Address().String())
	}
	slices.Sort(want)
	s, began := c.Settings(), time.Now()
	eventually(t, s.EndpointTTL+s.EndpointInterval+s.Margin, fmt.Sprintf("every entrance lists %v", want), func() bool {
		return !slices.ContainsFunc(c.Entrances(), func(e framework.Entrance) bool {
			return !slices.Equal(listedAddresses(t, c, e), want)
		})
	})
	t.Logf("%v listed after %s", want, time.Since(began).Round(10*time.Millisecond))
}

// writer creates objects through the balancer until it is stopped.
type writer struct {
	cancel func()
	work   sync.WaitGroup

	mu      sync.Mutex
	names   []string // of those that were acknowledged
	refused int
}

func writing(t *testing.T, c *Cluster) *writer {
	t.Helper()
	client, err := await.Client(c.Entrances()[0].Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := &writer{cancel: cancel}
	w.work.Go(func() {
		defer client.CloseIdleConnections()
		for n := 0; ctx.Err() == nil; n++ {
			name := fmt.Sprintf("scale-%d", n)
			one, done := context.WithTimeout(ctx, 3*time.Second)
			_, err := await.Request(one, client, http.MethodPost, c.Entrances()[0].Config.Host+scaleNamespace,
				fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, name))
			done()
			w.mu.Lock()
			if err == nil {
				w.names = append(w.names, name)
			} else {
				w.refused++
			}
			w.mu.Unlock()
			time.Sleep(50 * time.Millisecond)
		}
	})
	return w
}

// acknowledged returns how many writes were acknowledged so far.
func (w *writer) acknowledged() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.names)
}

// stop ends the writing, and returns the names of the objects whose writes were acknowledged.
func (w *writer) stop(t *testing.T) []string {
	w.cancel()
	w.work.Wait()
	t.Logf("%d writes acknowledged, %d not", len(w.names), w.refused)
	return w.names
}

func added(t *testing.T, c *Cluster) framework.Node {
	t.Helper()
	began := time.Now()
	n, err := c.AddNode(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s (%s) added after %s", n.Name(), n.Address(), time.Since(began).Round(10*time.Millisecond))
	return n
}

func removed(t *testing.T, c *Cluster, name string) {
	t.Helper()
	began := time.Now()
	if err := c.RemoveNode(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s removed after %s", name, time.Since(began).Round(10*time.Millisecond))
}

// voters returns how many voting members etcd has.
func voters(t *testing.T, c *Cluster) (n int) {
	t.Helper()
	list, err := c.etcdMembers().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if !m.IsLearner {
			n++
		}
	}
	return n
}

func leaderNode(t *testing.T, c *Cluster) string {
	t.Helper()
	for n, s := range c.etcdMembers().Statuses(t.Context()) {
		if s.Leader == s.Header.MemberId {
			return n
		}
	}
	t.Fatal("etcd has no leader")
	return ""
}

// TestScale takes a cluster from 3 nodes to 5 and back under writes, and replaces a node that died.
func TestScale(t *testing.T) {
	c := newCluster(t, func(s *clusters.Cluster) { s.Spec.Workers = 0 })
	first := c.Nodes()
	w := writing(t, c)
	t.Run("3 to 4, with a member that is killed", func(t *testing.T) {
		before := w.acknowledged()
		joinedUnderKills(t, c)
		if n := w.acknowledged() - before; n < 10 {
			t.Errorf("only %d writes were acknowledged meanwhile", n)
		}
	})
	t.Run("4 to 5 to 3", func(t *testing.T) {
		n := added(t, c)
		if n.Name() != "node-5" || len(c.Nodes()) != 5 || len(c.Entrances()) != 6 {
			t.Fatalf("it is %s, and there are %d nodes, %d entrances", n.Name(), len(c.Nodes()), len(c.Entrances()))
		}
		followed(t, c)
		backends, err := c.Backends(t.Context())
		if err != nil || len(backends) != 5 {
			t.Errorf("the balancer's backends are %v, %v", backends, err)
		}
		removed(t, c, leaderNode(t, c))
		removed(t, c, c.Nodes()[len(c.Nodes())-1].Name())
		followed(t, c)
		if n := voters(t, c); n != 3 || len(c.Nodes()) != 3 {
			t.Errorf("%d nodes, %d voting members", len(c.Nodes()), n)
		}
	})
	t.Run("a dead node is replaced", func(t *testing.T) {
		lost := c.Nodes()[0]
		if err := lost.(framework.PowerSwitch).PowerOff(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if n, err := c.AddNode(t.Context()); err == nil {
			t.Fatalf("%s was added while %s was down", n.Name(), lost.Name())
		} else if !strings.Contains(err.Error(), lost.Name()) {
			t.Errorf("it is refused in other words: %v", err)
		}
		if err := c.RemoveNode(t.Context(), c.Nodes()[1].Name()); err == nil || !strings.Contains(err.Error(), "quorum") {
			t.Errorf("removing one of two that are left: %v", err)
		}
		removed(t, c, lost.Name())
		n := added(t, c)
		for _, old := range first {
			if n.Address() == old.Address() || n.Name() == old.Name() {
				t.Errorf("%s has the name or the address of %s", n.Name(), old.Name())
			}
		}
		followed(t, c)
	})
	t.Run("a dead node is replaced under its name and address", func(t *testing.T) {
		lost := c.Nodes()[0]
		if n, err := c.ReplaceNode(t.Context(), lost.Name()); !errors.Is(err, framework.ErrNothingDone) || !strings.Contains(err.Error(), "no node of that name was removed") {
			t.Errorf("replacing one that is there: %v, %v", n, err)
		}
		if err := lost.(framework.PowerSwitch).PowerOff(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		removed(t, c, lost.Name())
		n, err := c.ReplaceNode(t.Context(), lost.Name())
		if err != nil {
			t.Fatal(err)
		}
		if n.Name() != lost.Name() || n.Address() != lost.Address() || n == lost {
			t.Errorf("%s (%s) replaces %s (%s)", n.Name(), n.Address(), lost.Name(), lost.Address())
		}
		if n := voters(t, c); n != 3 || len(c.Nodes()) != 3 {
			t.Errorf("%d nodes, %d voting members", len(c.Nodes()), n)
		}
		followed(t, c)
	})
	t.Run("nothing is lost", func(t *testing.T) {
		names := w.stop(t)
		if len(names) < 100 {
			t.Errorf("only %d writes were acknowledged", len(names))
		}
		for _, e := range c.Entrances() {
			body, err := await.API(t.Context(), e, scaleNamespace, await.Anything)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if !strings.Contains(string(body), `"`+name+`"`) {
					t.Errorf("%s shows no %s", e.Name, name)
				}
			}
		}
	})
}

// TestScaleFromOne takes a cluster behind HAProxy from 1 node to 2 and back.
func TestScaleFromOne(t *testing.T) {
	if _, err := exec.LookPath("haproxy"); err != nil {
		t.Skip(err)
	}
	c := newCluster(t, func(s *clusters.Cluster) {
		s.SetNodes(1)
		s.Spec.Workers, s.Spec.LoadBalancer.Kind = 0, clusters.BalancerHAProxy
	})
	if err := c.RemoveNode(t.Context(), "node-1"); err == nil {
		t.Error("the last node was removed")
	}
	t.Run("its member cannot be removed again", func(t *testing.T) {
		old := c.controlPlane()[0]
		ctx := framework.WithSteps(t.Context(), func(s framework.Step) error {
			if s.Name == record.StepPromote {
				return errors.Join(old.Freeze(t.Context(), framework.Etcd, time.Minute), errors.New("interrupted"))
			}
			return nil
		})
		if _, err := c.AddNode(ctx); err == nil || !strings.Contains(err.Error(), "node-2 stays in the cluster") {
			t.Fatal(err)
		}
		if err := old.Thaw(t.Context(), framework.Etcd); err != nil {
			t.Fatal(err)
		}
		eventually(t, 30*time.Second, "etcd has a quorum", func() bool {
			_, err := c.etcdMembers().List(t.Context())
			return err == nil
		})
		if n := voters(t, c); n != 2 || len(c.Nodes()) != 2 {
			t.Errorf("%d nodes, %d voting members", len(c.Nodes()), n)
		}
		removed(t, c, "node-2")
	})
	n := added(t, c)
	followed(t, c)
	eventually(t, 10*time.Second, "HAProxy finds both up", func() bool {
		backends, err := c.Backends(t.Context())
		return err == nil && len(backends) == 2 && backends[0].Up && backends[1].Up
	})
	removed(t, c, "node-1")
	followed(t, c)
	if backends, err := c.Backends(t.Context()); err != nil || len(backends) != 1 || backends[0].Name != n.Name() {
		t.Errorf("the balancer's backends are %v, %v", backends, err)
	}
	if !ready(t, c, framework.BalancerHost) {
		t.Error("the balancer does not answer for the node that is left")
	}
}

// joinedUnderKills adds a node whose etcd member is killed again and again while it joins: before it
// has data, as it begins its log, and as it catches up.
func joinedUnderKills(t *testing.T, c *Cluster) {
	t.Helper()
	const name, nodes = "node-4", 4
	ctx, cancel := context.WithCancel(t.Context())
	var killing sync.WaitGroup
	kills := 0
	killing.Go(func() {
		last := 0
		for delay := time.Duration(0); kills < 3 && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			pids, err := procfs.Find("/proc", func(args []string) bool { return args[0] == roleEtcd && slices.Contains(args, "--name="+name) })
			if err != nil || len(pids) == 0 || pids[0] == last {
				continue
			}
			time.Sleep(delay)
			if last = pids[0]; syscall.Kill(last, syscall.SIGKILL) == nil {
				kills++
			}
			delay += 150 * time.Millisecond
		}
	})
	n := added(t, c)
	cancel()
	killing.Wait()
	if t.Logf("the member of %s was killed %d times", n.Name(), kills); kills == 0 {
		t.Error("it was not killed while it joined")
	}
	if n.Name() != name || len(c.Nodes()) != nodes || len(c.Entrances()) != nodes+1 {
		t.Fatalf("it is %s, and there are %d nodes, %d entrances", n.Name(), len(c.Nodes()), len(c.Entrances()))
	}
	followed(t, c)
	if n := voters(t, c); n != nodes {
		t.Errorf("%d voting members", n)
	}
	// The last kill may have come just now, and its agent be waiting.
	eventually(t, 30*time.Second, "every member answers", func() bool { return len(c.etcdMembers().Silent(t.Context())) == 0 })
}
