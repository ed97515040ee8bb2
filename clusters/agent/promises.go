package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/undo"
)

// A fault that is done through etcd or the API is not on any node. Its undo action is left with
// the agents of the control-plane nodes before it begins: each carries it out when the time is
// over and the harness has not withdrawn it.

// promiseState is an undo action that is carried out unless it is withdrawn.
type promiseState struct {
	Undoing framework.Undoing `json:"undoing"`
	// Own is the name of the agent's node, and Members are the client URLs of etcd by
	// node.
	Own     string              `json:"own"`
	Members map[string][]string `json:"members"`
	Until   time.Time           `json:"until"`
}

// ofOwnNode reports whether it takes the agent's own node to undo it.
func (s *promiseState) ofOwnNode() bool { return s.Undoing.Node != "" && s.Undoing.Node == s.Own }

// undoLimit is how long one attempt to undo a fault may take.
const undoLimit = 2 * time.Minute

// promises are an agent's promises.
type promises struct {
	a *agent

	mu      sync.Mutex
	timers  expiry.Timers[string] // by handle
	running map[string]attempt    // by handle
}

// attempt is an attempt to undo a fault. One that changes the agent's own node cannot be cancelled.
type attempt struct {
	cancel func()
	done   chan struct{}
}

func (p *promises) give(r request) error {
	switch {
	case r.For <= 0:
		return ErrNoTTL
	case r.Handle == "" || r.Undoing == nil || len(r.Members) == 0:
		return errors.New("a scheduled undo needs a handle, what is to be undone, and the members of etcd")
	}
	if err := r.Undoing.Check(); err != nil {
		return err
	}
	s := &promiseState{Undoing: *r.Undoing, Own: r.Name, Members: r.Members, Until: time.Now().Add(r.For)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.a.store.update(func(st *state) { st.Promises[r.Handle] = s }); err != nil {
		p.a.store.note(func(st *state) { delete(st.Promises, r.Handle) })
		return err
	}
	p.keepIn(r.Handle, r.For)
	return nil
}

// withdraw also waits for the end of an attempt that is running: it could undo the next fault.
func (p *promises) withdraw(ctx context.Context, handle string) error {
	p.mu.Lock()
	p.timers.Stop(handle)
	p.a.store.note(func(st *state) { delete(st.Promises, handle) })
	now, found := p.running[handle]
	p.mu.Unlock()
	if !found {
		return nil
	}
	now.cancel()
	select {
	case <-now.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("failed to withdraw an undo, which is running: %w", context.Cause(ctx))
	}
}

// keepIn keeps a promise later; with mu held.
func (p *promises) keepIn(handle string, d time.Duration) {
	p.timers.Start(&p.mu, handle, d, func() error { return p.keep(handle) })
}

// keep undoes the fault; with mu held, except during the attempt.
func (p *promises) keep(handle string) error {
	var s *promiseState
	p.a.store.read(func(st *state) { s = st.Promises[handle] })
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), undoLimit)
	defer cancel()
	now := attempt{cancel, make(chan struct{})}
	if s.ofOwnNode() {
		now.cancel = func() {}
	}
	p.running[handle] = now
	p.mu.Unlock()
	err := undo.Do(ctx, &ownCluster{a: p.a, own: s.Own, members: s.Members}, s.Undoing)
	p.mu.Lock()
	delete(p.running, handle)
	close(now.done)
	if err == nil {
		p.a.store.note(func(st *state) { delete(st.Promises, handle) })
	}
	return err
}

// resume takes over the promises of an earlier agent.
func (p *promises) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var kept map[string]*promiseState
	p.a.store.read(func(st *state) { kept = maps.Clone(st.Promises) })
	for handle, s := range kept {
		if err := s.Undoing.Check(); err != nil { // an earlier agent's, in another format
			complain(err)
			p.a.store.note(func(st *state) { delete(st.Promises, handle) })
			continue
		}
		p.keepIn(handle, time.Until(s.Until))
	}
}

func (p *promises) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timers.StopAll()
}

func (p *promises) handle(mux *http.ServeMux) {
	answer(mux, "POST /promise", func(_ context.Context, r request) (any, error) { return nil, p.give(r) })
	answer(mux, "POST /withdraw", func(ctx context.Context, r request) (any, error) { return nil, p.withdraw(ctx, r.Handle) })
}

// ownCluster is the cluster as an agent sees it: all of etcd, and the abilities of its own
// node. It bypasses the API servers, which may not answer.
type ownCluster struct {
	a       *agent
	own     string
	members map[string][]string
}

// Nodes returns the nodes with etcd, in the order of their names.
func (c *ownCluster) Nodes() []framework.Node {
	var all []framework.Node
	for _, name := range slices.Sorted(maps.Keys(c.members)) {
		other := otherNode{name: name, components: []framework.Component{framework.Etcd}}
		if name != c.own {
			all = append(all, other)
			continue
		}
		for _, spec := range c.a.config.Components {
			if spec.Name != framework.Etcd {
				other.components = append(other.components, spec.Name)
			}
		}
		all = append(all, ownNode{other, c.a})
	}
	return all
}

// EtcdConfig implements framework.EtcdAccess.
func (c *ownCluster) EtcdConfig(node string) (clientv3.Config, error) {
	// A node may have the proxy of the machine that created it in its environment.
	config := clientv3.Config{Endpoints: c.members[node], DialTimeout: networkLimit, DialOptions: []grpc.DialOption{grpc.WithNoProxy()}}
	if url := c.a.config.EtcdClient.URL; node == c.own && url != "" { // it may listen on the loopback device alone
		config.Endpoints = []string{url}
	}
	if len(config.Endpoints) == 0 {
		return config, fmt.Errorf("no etcd is known on %q", node)
	}
	if !slices.ContainsFunc(config.Endpoints, func(url string) bool { return strings.HasPrefix(url, "https:") }) {
		return config, nil
	}
	var err error
	config.TLS, err = c.a.config.EtcdClient.TLS()
	return config, err
}

// otherNode is a node of which only its etcd member is known.
type otherNode struct {
	name       string
	components []framework.Component
}

func (n otherNode) Name() string { return n.name }

func (n otherNode) Address() netip.Addr { return netip.Addr{} }

func (n otherNode) Components() []framework.Component { return n.components }

// ownNode is the agent's node.
type ownNode struct {
	otherNode
	a *agent
}

func (n ownNode) RejoinEtcd(ctx context.Context, members []framework.EtcdPeer) error {
	return n.a.etcd.rejoin(ctx, members)
}

func (n ownNode) Kill(ctx context.Context, c framework.Component, hold time.Duration) error {
	return n.a.watchers[c].kill(ctx, hold)
}

func (n ownNode) Process(_ context.Context, c framework.Component) (framework.Process, error) {
	return n.a.watchers[c].process(), nil
}
