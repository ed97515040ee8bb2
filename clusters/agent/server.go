package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// agent runs on a node.
type agent struct {
	config       Config
	store        *store
	watchers     map[framework.Component]*watcher
	network      *network
	certificates *certificates
	etcd         *etcd
	promises     *promises
	clocks       *clocks
	filler       *filler
	owner        owner
	closed       chan struct{}
}

// newAgent heals what has expired and resumes the rest.
func newAgent(config Config) (*agent, error) {
	s, err := openStore(config.Dir)
	if err != nil {
		return nil, err
	}
	config = s.complete(config)
	s.config = config
	if err := listManifests(config); err != nil {
		return nil, err
	}
	now, err := boot()
	if err != nil {
		return nil, err
	}
	restarted := false
	s.read(func(st *state) { restarted = st.Boot != now })
	a := &agent{config: config, store: s, watchers: map[framework.Component]*watcher{}, closed: make(chan struct{})}
	a.owner.run, a.owner.asked = config.Run, sinceBoot()
	a.clocks = &clocks{a: a}
	for _, c := range config.Components {
		w := newWatcher(s, c, a.clocks)
		for _, name := range append([]framework.Component{c.Name}, c.With...) {
			if name == c.Name || a.watchers[name] == nil {
				a.watchers[name] = w
			}
		}
	}
	ctx := context.Background()
	a.healLost()
	// First the data of a member: it must not start on data that are not its own.
	a.etcd = &etcd{data: config.EtcdData, watcher: a.watchers[framework.Etcd], store: s}
	over := restarted && a.cutOff()
	a.etcd.resume(restarted, over)
	a.certificates = &certificates{pki: config.PKI, store: s}
	a.certificates.resume(over)
	a.letGoStrangers()
	for _, c := range config.Components {
		a.watchers[c.Name].resume(ctx, restarted)
	}
	a.clocks.resume(restarted)
	a.filler = &filler{data: config.EtcdData, watcher: a.watchers[framework.Etcd], store: s}
	a.filler.resume(over)
	a.network = newNetwork(config, s)
	a.network.resume(restarted)
	a.promises = &promises{a: a, running: map[string]attempt{}}
	a.promises.resume()
	// An agent that did not start since the disk is full would heal nothing.
	s.note(func(st *state) { st.Boot = now })
	return a, nil
}

// cutOff reports whether the leash has ended the faults on data, certificates and volumes when the node
// has restarted: without a network there was no request. What starts components waits for the agent, so
// that they do not start on them; faults on processes and on the network are gone with the kernel's
// state.
func (a *agent) cutOff() bool {
	changed := false
	a.store.read(func(st *state) { changed = st.Wiped != nil || st.Filled != nil || len(st.Spoilt) > 0 })
	if a.config.Leash == 0 || !changed {
		return false
	}
	complain(errors.New("the node has restarted: healing data, certificates and volumes"))
	a.store.note(func(st *state) { st.Lapsed = time.Now() })
	return true
}

// leashPause is the time between two checks for the last request.
const leashPause = time.Second

// leash ends all faults if no request of the run that uses the agent comes for the configured time, and
// repeats that if any are active and no request comes for as long again.
func (a *agent) leash(ctx context.Context) {
	limit := a.config.Leash
	if limit == 0 {
		return
	}
	last := sinceBoot()
	every := time.NewTicker(min(leashPause, limit))
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		_, asked := a.owner.last()
		last = max(last, asked)
		if sinceBoot()-last < limit {
			continue
		}
		last = sinceBoot()
		if left := a.store.active(); len(left) > 0 {
			complain(fmt.Errorf("no request from the harness for %s: healing everything (%s)", limit, strings.Join(left, ", ")))
			a.store.note(func(st *state) { st.Lapsed = time.Now() })
			a.healAll()
		}
	}
}

// healAll ends every fault on the node now. Those whose lock is taken, by a change of etcd's data for
// example, end as soon as it is free, and delay no other.
func (a *agent) healAll() {
	a.network.endAll()
	hurry := func(mu sync.Locker, timers interface{ Hurry() }) {
		mu.Lock()
		defer mu.Unlock()
		timers.Hurry()
	}
	for _, w := range a.watchers {
		go hurry(changes{w}, &w.timers)
	}
	go hurry(&a.certificates.mu, &a.certificates.timers)
	go hurry(&a.etcd.mu, &a.etcd.timers)
	go hurry(&a.promises.mu, &a.promises.timers)
	go hurry(&a.clocks.mu, &a.clocks.timers)
	go hurry(&a.filler.mu, &a.filler.timers)
}

// close leaves active faults in place.
func (a *agent) close() {
	close(a.closed)
	a.promises.close()
	a.network.close()
}

// request is a request to an agent.
type request struct {
	Component framework.Component `json:"component,omitempty"`
	// For is how long a hold, a freeze, or any other fault lasts.
	For time.Duration `json:"for,omitempty"`
	// After is for a crash loop: the time from each start to the kill.
	After  time.Duration               `json:"after,omitempty"`
	Defect framework.CertificateDefect `json:"defect,omitempty"`
	// Name is the name that a certificate must not contain: the balancer's; or, for a promise,
	// the name of the node.
	Name   string `json:"name,omitempty"`
	Handle string `json:"handle,omitempty"`
	// Peers, Paths and Impairment are for the network.
	Peers      []Peer               `json:"peers,omitempty"`
	Paths      []Path               `json:"paths,omitempty"`
	Impairment framework.Impairment `json:"impairment,omitzero"`
	// Addresses are the peers of connections.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Probe is where to send packets, and Packets how many.
	Probe   netip.AddrPort `json:"probe,omitzero"`
	Packets int            `json:"packets,omitempty"`
	// Undoing is the promised undo action, and Members are the client URLs of etcd by node.
	Undoing *framework.Undoing  `json:"undoing,omitempty"`
	Members map[string][]string `json:"members,omitempty"`
	// Cluster are the members of the cluster that etcd joins or forms.
	Cluster []framework.EtcdPeer `json:"cluster,omitempty"`
	// Free is how many bytes are left on a file system that is filled.
	Free int64 `json:"free,omitempty"`
	// Until is for an admission, on the monotonic clock.
	Until time.Duration `json:"until,omitempty"`
	// From is the place in a log after which entries are read; nil for its end.
	From *place `json:"from,omitempty"`
	// Exec is how to start a component from now on.
	Exec *Exec `json:"exec,omitempty"`
	// Components are those whose clocks move, and Shift is how.
	Components []framework.Component `json:"components,omitempty"`
	Shift      framework.ClockShift  `json:"shift,omitzero"`
}

func noComponent(c framework.Component) error { return fmt.Errorf("no component %q here", c) }

func (a *agent) handler(more func(*http.ServeMux)) http.Handler {
	mux := http.NewServeMux()
	if more != nil {
		more(mux)
	}
	onComponent := func(verb string, do func(context.Context, *watcher, request) error) {
		answer(mux, "POST /"+verb, func(ctx context.Context, r request) (any, error) {
			w := a.watchers[r.Component]
			if w == nil {
				return nil, noComponent(r.Component)
			}
			return nil, do(ctx, w, r)
		})
	}
	answer(mux, "GET /ping", func(context.Context, request) (any, error) { return nil, nil })
	answer(mux, "GET /processes", func(context.Context, request) (any, error) {
		var all []framework.Process
		for _, c := range a.config.Components {
			p := a.watchers[c.Name].process()
			for _, p.Component = range append([]framework.Component{c.Name}, c.With...) {
				all = append(all, p)
			}
		}
		return all, nil
	})
	answer(mux, "POST /process", func(_ context.Context, r request) (any, error) {
		w := a.watchers[r.Component]
		if w == nil {
			return nil, noComponent(r.Component)
		}
		p := w.process()
		p.Component = r.Component
		return p, nil
	})
	answer(mux, "GET /lapsed", func(context.Context, request) (any, error) {
		var ago time.Duration
		a.store.read(func(st *state) {
			if !st.Lapsed.IsZero() {
				ago = max(1, time.Since(st.Lapsed))
			}
		})
		return ago, nil
	})
	answer(mux, "POST /heal", func(context.Context, request) (any, error) {
		if len(a.store.active()) > 0 { // the run that started it may continue
			a.store.note(func(st *state) { st.Lapsed = time.Now() })
		}
		a.healAll()
		return nil, nil
	})
	answer(mux, "GET /active", func(context.Context, request) (any, error) { return a.store.active(), nil })
	onComponent("kill", func(ctx context.Context, w *watcher, r request) error { return w.kill(ctx, r.For) })
	onComponent("stop", func(ctx context.Context, w *watcher, r request) error { return w.stop(ctx, r.For) })
	onComponent("start", func(ctx context.Context, w *watcher, _ request) error { return w.start(ctx) })
	onComponent("freeze", func(_ context.Context, w *watcher, r request) error { return w.freeze(r.For) })
	onComponent("thaw", func(_ context.Context, w *watcher, _ request) error { return w.thaw() })
	onComponent("crash-loop", func(_ context.Context, w *watcher, r request) error { return w.crashLoop(r.After, r.For) })
	onComponent("end-crash-loop", func(ctx context.Context, w *watcher, _ request) error { return w.endCrashLoop(ctx) })
	onComponent("admit", func(ctx context.Context, w *watcher, r request) error { return w.admit(ctx, r.Until) })
	onComponent("renew", func(_ context.Context, w *watcher, r request) error { return w.renew(r.Exec) })
	onComponent("reload", func(_ context.Context, w *watcher, _ request) error { return w.reload() })
	answer(mux, "POST /connections", func(_ context.Context, r request) (any, error) { return system.Connections(r.Addresses) })
	a.clocks.handle(mux)
	a.certificates.handle(mux)
	a.network.handle(mux)
	a.etcd.handle(mux)
	a.promises.handle(mux)
	a.filler.handle(mux)
	answer(mux, "GET /audit", a.audit)
	mux.HandleFunc("POST /etcd", a.serveEtcd)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if agenthttp.RefuseLate(w, r) {
			return // also to end a fault, if the clocks differ
		}
		if a.forOther(w, r) {
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func answer(mux *http.ServeMux, pattern string, do func(context.Context, request) (any, error)) {
	agenthttp.Answer(mux, pattern, do)
}
