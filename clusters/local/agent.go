package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// agentConfig is what a node agent runs.
type agentConfig struct {
	// Socket is the path on which the agent is asked and told.
	Socket string `json:"socket"`
	// State is the file in which the agent keeps what a successor must know.
	State string `json:"state"`
	// Exits is the file in which the machine's first process notes how
	// processes ended whose agent had died.
	Exits      string          `json:"exits"`
	Components []componentSpec `json:"components"`
	// Claimed is the address that the machine took over from another one, invalid if it did
	// not; see claim. The load balancer claims its own address back from a node.
	Claimed netip.Addr `json:"claimed,omitzero"`
}

// componentSpec is one process for an agent to keep running.
type componentSpec struct {
	Name framework.Component `json:"name"`
	Path string              `json:"path"`
	Args []string            `json:"args"` // with argv[0]
	Env  []string            `json:"env,omitempty"`
	Dir  string              `json:"dir,omitempty"`
	Log  string              `json:"log"`
	// StartAfter is a URL whose 200 is worth waiting for before the first
	// start; empty for none.
	StartAfter string `json:"startAfter,omitempty"`
	// Supervised lets it run only while it is admitted; see admission.go.
	Supervised bool `json:"supervised,omitempty"`
}

// agent runs the components of a machine: starts them, starts them again when
// they die, and does to them what faults ask for.
type agent struct {
	file        string // that cfg is read from
	cfg         agentConfig
	supervisors map[framework.Component]*supervisor
	clocks      *clocks
	claimed     claim

	mu    sync.Mutex
	state map[framework.Component]*savedState // guarded by mu
}

// savedState outlives the agent, so that its successor adopts the running
// components and keeps the active faults.
type savedState struct {
	PID        int       `json:"pid"`
	StartTicks uint64    `json:"startTicks"`
	Started    time.Time `json:"started"`
	Restarts   int       `json:"restarts"`
	LastExit   string    `json:"lastExit,omitempty"`
	HoldUntil  time.Time `json:"holdUntil,omitzero"`
	ThawAt     time.Time `json:"thawAt,omitzero"`
	// CrashUntil is the end of a crash loop, CrashAfter the time from each
	// start to the kill.
	CrashUntil time.Time     `json:"crashUntil,omitzero"`
	CrashAfter time.Duration `json:"crashAfter,omitzero"`
	// AdmittedUntil is until when a supervised component may run, as
	// podmaster.Now tells the time.
	AdmittedUntil time.Duration `json:"admittedUntil,omitzero"`
	// Etcd is what is to be done with an etcd member's data.
	Etcd *etcdOrder `json:"etcd,omitempty"`
}

func runAgent(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: holdfast-agent CONFIG")
	}
	a := &agent{file: args[0], supervisors: map[framework.Component]*supervisor{}, state: map[framework.Component]*savedState{}}
	var err error
	if a.cfg, err = readConfig(a.file); err != nil {
		return err
	}
	if b, err := os.ReadFile(a.cfg.State); err == nil {
		if err := json.Unmarshal(b, &a.state); err != nil {
			return fmt.Errorf("reading the agent's state %s: %w", a.cfg.State, err)
		}
	}
	if err := a.claimed.set(a.cfg.Claimed); err != nil {
		return err
	}
	if err := a.supervise(); err != nil {
		return err
	}
	_ = os.Remove(a.cfg.Socket)
	l, err := net.Listen("unix", a.cfg.Socket)
	if err != nil {
		return fmt.Errorf("listening on the agent's socket: %w", err)
	}
	return http.Serve(l, a)
}

func readConfig(file string) (cfg agentConfig, err error) {
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &cfg)
	}
	if err != nil {
		return cfg, fmt.Errorf("reading the agent's configuration %s: %w", file, err)
	}
	return cfg, nil
}

// supervise takes over what an earlier agent started, and keeps each component
// running from then on. Whoever asks after it has returned sees what runs.
func (a *agent) supervise() (err error) {
	for _, spec := range a.cfg.Components {
		if a.state[spec.Name] == nil {
			a.state[spec.Name] = &savedState{}
		}
		a.supervisors[spec.Name] = newSupervisor(a, spec)
	}
	if a.clocks, err = newClocks(a); err != nil {
		return err
	}
	for _, spec := range a.cfg.Components {
		s := a.supervisors[spec.Name]
		adopted := s.adopt(a.saved(spec.Name))
		if adopted {
			s.resumeFreeze(a.saved(spec.Name))
		}
		go s.run(adopted)
	}
	return nil
}

// update changes the state of a component and writes it down.
func (a *agent) update(c framework.Component, change func(*savedState)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a.state[c])
	b, err := json.Marshal(a.state)
	if err == nil {
		err = system.ReplaceFile(a.cfg.State, b, 0o600, false)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "node agent: writing its state: %v\n", err)
	}
}

func (a *agent) saved(c framework.Component) savedState {
	a.mu.Lock()
	defer a.mu.Unlock()
	return *a.state[c]
}

// agentRequest is what an agent is told to do with a component.
type agentRequest struct {
	Component framework.Component `json:"component"`
	// For is how long it lasts: a hold, or a freeze.
	For time.Duration `json:"for"`
	// After is for a crash loop: the time from each start to the kill.
	After time.Duration `json:"after,omitzero"`
	// Until is for an admission, as podmaster.Now tells the time.
	Until time.Duration `json:"until,omitzero"`
	// Load is for pressure, which is on no component.
	Load *loadSpec `json:"load,omitempty"`
	// Probe is where packets are to be sent to, and Packets how many.
	Probe   netip.AddrPort `json:"probe,omitzero"`
	Packets int            `json:"packets,omitempty"`
}

// ServeHTTP answers GET /processes and /stalled, and POST /kill, /stop, /start, /renew, /reload, /freeze,
// /thaw, /crash-loop, /end-crash-loop, /admit, /press, /probe and /claim, and what clocks.serve does.
func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if agenthttp.RefuseLate(w, r) {
		return
	}
	if r.Method == http.MethodGet && r.URL.Path == "/processes" {
		var all []framework.Process
		for _, spec := range a.cfg.Components {
			all = append(all, a.supervisors[spec.Name].process())
		}
		_ = json.NewEncoder(w).Encode(all)
		return
	}
	if r.Method == http.MethodGet && r.URL.Path == "/stalled" {
		peers, err := system.Stalled()
		if err != nil {
			agenthttp.Error(w, err)
			return
		}
		_ = json.NewEncoder(w).Encode(peers)
		return
	}
	if a.clocks.serve(w, r) {
		return
	}
	if r.Method == http.MethodGet && r.URL.Path == "/lookup" {
		a.serveLookup(w, r)
		return
	}
	if r.URL.Path == "/etcd" {
		a.serveEtcd(w, r)
		return
	}
	var req agentRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.URL.Path == "/press" && req.Load != nil {
		if err := startLoad(*req.Load, req.For); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
		return
	}
	if r.URL.Path == "/probe" {
		if err := system.SendProbes(req.Probe, req.Packets); err != nil {
			agenthttp.Error(w, err)
		}
		return
	}
	if r.URL.Path == "/claim" {
		cfg, err := readConfig(a.file)
		if err == nil {
			err = a.claimed.set(cfg.Claimed)
		}
		if err != nil {
			agenthttp.Error(w, err)
		}
		return
	}
	s := a.supervisors[req.Component]
	if s == nil {
		http.Error(w, fmt.Sprintf("no component %q here", req.Component), http.StatusNotFound)
		return
	}
	var err error
	switch r.URL.Path {
	case "/kill":
		err = s.kill(req.For)
	case "/stop":
		err = s.stop(r.Context(), req.For)
	case "/start":
		err = s.start()
	case "/renew":
		err = s.renew()
	case "/reload":
		err = s.reload()
	case "/freeze":
		err = s.freeze(req.For)
	case "/thaw":
		err = s.thaw()
	case "/crash-loop":
		err = s.crashLoop(req.After, req.For)
	case "/end-crash-loop":
		err = s.endCrashLoop()
	case "/admit":
		err = s.admit(req.Until)
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil {
		agenthttp.Error(w, err)
	}
}

// agentClient talks to a node agent.
type agentClient struct {
	*agenthttp.Client
	node string
}

func newAgentClient(node, socket string) *agentClient {
	return &agentClient{node: node, Client: agenthttp.NewUnix("its node agent", socket)}
}
