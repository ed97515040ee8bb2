package fault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/members"
	"github.com/holdfast-ha/holdfast/framework/undo"
)

// nodesPromise is the ability of a cluster whose nodes record what they promise.
type nodesPromise struct {
	mu    sync.Mutex
	given map[string]framework.Undoing
	calls []string
	fails error // the error of Promise, and of CheckPromise if it is an errRefuses
	// missed is how many times Withdraw fails.
	missed int
}

var errRefuses = errors.New("no node has an agent")

func (p *nodesPromise) Promise(_ context.Context, u framework.Undoing, ttl time.Duration) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, "promise")
	if p.fails == nil && ttl > 0 {
		p.given = map[string]framework.Undoing{"a": u}
	}
	return "a", p.fails
}

func (p *nodesPromise) CheckPromise(framework.Undoing) error {
	if errors.Is(p.fails, errRefuses) {
		return p.fails
	}
	return nil
}

func (p *nodesPromise) Withdraw(_ context.Context, handle string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, "withdraw")
	if p.missed--; p.missed >= 0 {
		return errors.New("a node does not answer")
	}
	delete(p.given, handle)
	return nil
}

func (p *nodesPromise) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, what)
}

type promisingEtcd struct {
	*operatedEtcd
	*nodesPromise
}

type promisingAPI struct {
	apiCluster
	*nodesPromise
}

// promisedFault is a fault that goes through etcd or the API, on a cluster whose nodes undo it if
// the injecting process is killed.
type promisedFault struct {
	fault  *Fault
	params map[string]string
	// start returns a cluster and a target, and a check of whether it is healthy.
	start func(t *testing.T, p *nodesPromise) (framework.Cluster, Target, look)
}

func promisedFaults() []promisedFault {
	etcd := func(pattern string, whole func(c *operatedEtcd, t Target) look) func(*testing.T, *nodesPromise) (framework.Cluster, Target, look) {
		return func(t *testing.T, p *nodesPromise) (framework.Cluster, Target, look) {
			c := operateEtcd(t, func(config *embed.Config) { config.QuotaBackendBytes = 24 << 20 })
			target := c.resolve(t, pattern)
			return promisingEtcd{c, p}, target, whole(c, target)
		}
	}
	writes := func(c *operatedEtcd, t Target) look {
		return func(ctx context.Context) (bool, string) { return etcdWrites(ctx, c, t.Node) }
	}
	return []promisedFault{
		{Alarm, nil, etcd("etcd/follower", writes)},
		{FillQuota, nil, etcd("etcd/follower", writes)},
		{RemoveMember, nil, etcd("etcd/follower", func(c *operatedEtcd, t Target) look {
			return func(ctx context.Context) (bool, string) { return etcdReads(ctx, c, t.Node) }
		})},
		{RestoreSnapshot, map[string]string{"age": "0s"}, etcd("etcd/any", func(c *operatedEtcd, t Target) look {
			first := map[string]int{}
			for _, n := range c.nodes {
				first[n.name] = n.processes[framework.APIServer].PID
			}
			return func(context.Context) (bool, string) {
				for _, n := range c.nodes {
					if n.processes[framework.APIServer].PID == first[n.name] {
						return false, n.name + " runs an API server from before"
					}
				}
				return true, ""
			}
		})},
		{LeaseSteal, map[string]string{"renew": "false"}, func(t *testing.T, p *nodesPromise) (framework.Cluster, Target, look) {
			c := newAPI(t)
			l := leaseObject{c, "kube-controller-manager"}
			c.candidate(t)
			return storeAPI(t, c, p), component("node-1", framework.ControllerManager), func(ctx context.Context) (bool, string) {
				now, err := l.get(ctx)
				if err != nil {
					return false, err.Error()
				}
				return text(now.Spec.HolderIdentity) != stranger, "a stranger has it"
			}
		}},
		{Overload, map[string]string{"concurrency": "20"}, func(t *testing.T, p *nodesPromise) (framework.Cluster, Target, look) {
			c := newAPI(t)
			f := &fairness{seats: make(chan struct{}, 2)}
			var mu sync.Mutex
			roles := map[string]bool{}
			c.hookAll(func(w http.ResponseWriter, r *http.Request) bool {
				mu.Lock()
				switch {
				case r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, rbacPath):
					roles[r.URL.Path] = true
					p.note("ask")
				case r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, rbacPath):
					delete(roles, r.URL.Path[:strings.LastIndex(r.URL.Path, "/")])
				}
				mu.Unlock()
				return f.answer(w, r)
			})
			return storeAPI(t, c, p), component("node-2", framework.APIServer), func(context.Context) (bool, string) {
				mu.Lock()
				defer mu.Unlock()
				return len(roles) == 0, strings.Join(slices.Sorted(maps.Keys(roles)), ", ")
			}
		}},
		{WebhookHang, map[string]string{"timeout": "1s"}, func(t *testing.T, p *nodesPromise) (framework.Cluster, Target, look) {
			c := newAPI(t)
			a := &admission{hooks: map[string]admissionregistrationv1.ValidatingWebhook{}}
			c.hookAll(a.answer)
			return storeAPI(t, c, p), component("node-2", framework.APIServer), func(context.Context) (bool, string) {
				a.mu.Lock()
				defer a.mu.Unlock()
				return len(a.hooks) == 0, "webhooks are registered"
			}
		}},
	}
}

// Each of these faults gives its undoing to the cluster before it starts. The cluster undoes it
// without the injecting process, and again without harm. Without the promise nothing is started.
// Not in parallel: etcd members take CPU time from timing-sensitive tests.
func TestFaultsArePromised(t *testing.T) {
	for _, f := range promisedFaults() {
		t.Run(f.fault.Name, func(t *testing.T) {
			p := &nodesPromise{}
			c, target, whole := f.start(t, p)
			f.refused(t, p, c, target)
			if held, seen := whole(t.Context()); !held && f.fault != RestoreSnapshot {
				t.Error(seen)
			}
			p.calls = nil
			i, err := f.fault.Inject(t.Context(), c, target, Params{TTL: ttl, Values: f.params})
			if err != nil || !i.Proof().Proven {
				t.Fatalf("%v, %v", i, err)
			}
			u, given := p.given["a"]
			if !given || u.Fault != f.fault.Name || p.calls[0] != "promise" {
				t.Fatalf("promised: %+v, after %v", p.given, p.calls)
			}
			if held, _ := whole(t.Context()); held {
				t.Fatal("it is whole while the fault is active")
			}
			if c, ok := c.(storedAPI); ok {
				whole = c.keeps(t, u)
				if held, _ := whole(t.Context()); held {
					t.Fatalf("it has nothing to do: %+v", u)
				}
			}
			for range 2 { // the second time by another node
				if err := undo.Do(t.Context(), c.(undo.Cluster), u); err != nil {
					t.Fatal(err)
				}
				if _, held, seen := await(t.Context(), time.Minute, whole); !held {
					t.Fatalf("undone: %s", seen)
				}
			}
			if f.fault == LeaseSteal {
				return // no instance renews it here
			}
			if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven || len(p.given) > 0 {
				t.Errorf("%+v, %v, promised %v", healed, err, p.given)
			}
		})
	}
}

// TestPromiseIsWithdrawnLater: a node that keeps its promise would undo a later fault.
func TestPromiseIsWithdrawnLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for missed, want := range map[int]int{2: 0, 1000: 1} {
			p := &nodesPromise{missed: missed}
			c := struct {
				framework.Cluster
				*nodesPromise
			}{newFake(), p}
			r := Request{Fault: Alarm, Cluster: c, TTL: ttl}
			done := func(context.Context) error { return nil }
			held := func(context.Context) (bool, string) { return true, "" }
			i, err := attempt{ask: done, effect: held, undo: done, healed: held}.promised(r, framework.Undoing{}).inject(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
				t.Fatalf("%+v, %v", healed, err)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if len(p.given) != want {
				t.Errorf("after %v the nodes promise %+v", p.calls, p.given)
			}
			time.Sleep(ttl + 2*time.Minute) // then they have kept it
			p.calls = nil
			time.Sleep(time.Hour)
			if len(p.calls) > 0 {
				t.Errorf("it is withdrawn long after its time: %v", p.calls)
			}
		}
	})
}

// lasting is a cluster that outlives its process and promises nothing.
type lasting struct {
	framework.Cluster
	framework.EtcdAccess
}

// refused shows that the fault is refused on a cluster that outlives the process and does not
// promise, and that nothing is started if the promise fails.
func (f promisedFault) refused(t *testing.T, p *nodesPromise, c framework.Cluster, target Target) {
	t.Helper()
	access, _ := c.(framework.EtcdAccess)
	params := Params{TTL: ttl, Values: f.params}
	var missing *MissingAbility
	if err := f.fault.Check(lasting{c, access}, target, params); !errors.As(err, &missing) || missing.Ability != "Promiser" {
		t.Errorf("a cluster that outlives this process: %v", err)
	}
	p.fails = errRefuses
	if err := f.fault.Check(c, target, params); !errors.As(err, &missing) || !strings.Contains(err.Error(), errRefuses.Error()) {
		t.Errorf("a cluster that refuses: %v", err)
	}
	p.fails = errors.New("no agent answers")
	if i, err := f.fault.Inject(t.Context(), c, target, params); !errors.Is(err, p.fails) {
		t.Errorf("injected without a promise: %v, %v", i, err)
	}
	p.fails = nil
}

// storedAPI keeps the objects of its API servers in etcd.
type storedAPI struct {
	promisingAPI
	etcd *operatedEtcd
}

// storeAPI returns one whose etcd has a namespace.
func storeAPI(t *testing.T, c apiCluster, p *nodesPromise) storedAPI {
	stored := storedAPI{promisingAPI{c, p}, operateEtcd(t)}
	stored.put(t, "/registry/namespaces/default", "x")
	return stored
}

func (c storedAPI) EtcdConfig(node string) (clientv3.Config, error) { return c.etcd.EtcdConfig(node) }

// Nodes returns those with etcd, which run all components.
func (c storedAPI) Nodes() []framework.Node {
	return framework.Map(c.etcd.Nodes(), func(n framework.Node) framework.Node { return wholeNode{n} })
}

type wholeNode struct{ framework.Node }

func (wholeNode) Components() []framework.Component {
	return []framework.Component{framework.Etcd, framework.APIServer, framework.ControllerManager, framework.Scheduler}
}

func (c storedAPI) put(t *testing.T, key, value string) {
	t.Helper()
	err := onMember(c, "node-1", func(m members.Member) error {
		_, err := m.Client.Put(t.Context(), key, value)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// keeps puts into etcd what API servers keep there of the fault that u undoes, which these do not,
// and returns a check of whether it is undone.
func (c storedAPI) keeps(t *testing.T, u framework.Undoing) look {
	t.Helper()
	if u.Release != nil {
		name, holder := path.Base(u.Release.Key), u.Release.Holder
		var value strings.Builder
		err := leaseCodec().Encode(&coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}, &value)
		if err != nil {
			t.Fatal(err)
		}
		c.put(t, registry+leaseObject{c, name}.key(), value.String())
		return func(ctx context.Context) (bool, string) {
			l, err := leaseObject{c, name}.stored(ctx)
			return err == nil && text(l.Spec.HolderIdentity) == "", fmt.Sprint(l, err)
		}
	}
	resources := map[string][]string{Overload.Name: {"clusterroles", "clusterrolebindings"}, WebhookHang.Name: {"validatingwebhookconfigurations"}}
	for _, resource := range resources[u.Fault] {
		c.put(t, "/registry/"+resource+"/"+path.Base(u.Delete[0]), "x")
	}
	return func(ctx context.Context) (held bool, seen string) {
		err := onMember(c, "node-1", func(m members.Member) error {
			got, err := m.Client.Get(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
			if err == nil {
				held, seen = got.Count == 1, fmt.Sprint(got.Kvs)
			}
			return err
		})
		return held && err == nil, fmt.Sprint(seen, err)
	}
}

// TestUndoneWhereItIsStored: nodes undo the registration in etcd, past the API servers. If these
// keep their objects under another prefix, it would stay permanently, so it is refused.
func TestUndoneWhereItIsStored(t *testing.T) {
	p, a := &nodesPromise{}, &admission{hooks: map[string]admissionregistrationv1.ValidatingWebhook{}}
	c := storedAPI{promisingAPI{newAPI(t), p}, operateEtcd(t)}
	c.hookAll(a.answer)
	inject := func() (Injection, error) {
		return WebhookHang.Inject(t.Context(), c, component("node-2", framework.APIServer), Params{TTL: ttl, Values: map[string]string{"timeout": "1s"}})
	}
	c.put(t, "/kubernetes.io/namespaces/default", "x")
	var missing *MissingAbility
	if _, err := inject(); !errors.As(err, &missing) || missing.Ability != "Promiser" || !strings.Contains(err.Error(), "--etcd-prefix") {
		t.Errorf("under another prefix: %v", err)
	}
	if len(p.calls) > 0 || len(a.hooks) > 0 {
		t.Errorf("it was begun: %v, %v", p.calls, a.hooks)
	}
	c.put(t, "/registry/namespaces/default", "x")
	i, err := inject()
	if err != nil || !i.Proof().Proven {
		t.Fatalf("under the usual one: %v, %v", i, err)
	}
	if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
		t.Errorf("%+v, %v", healed, err)
	}
}
