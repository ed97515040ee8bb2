package local

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
	"github.com/holdfast-ha/holdfast/clusters/local/disk"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/clusters/vnet"
	"github.com/holdfast-ha/holdfast/framework"
)

// machine is a host of the cluster: a child process in network, PID, UTS, IPC
// and mount namespaces of its own, with a port on the switch.
type machine struct {
	name  string
	addr  netip.Prefix
	sw    *vnet.Switch
	dir   string // the machine's disk; it outlives a power cut
	run   string // sockets and the agent's state: only while the machine runs
	hosts string // its /etc/hosts
	logs  string
	// nameServer is the address of its DNS server; empty for none.
	nameServer string
	sysctls    map[string]string

	// configMu guards config.Components after the machine's creation; see renew.
	configMu sync.Mutex
	config   agentConfig
	agent    *agent.Client
	disk     *disk.Process // nil if etcd's data are not on such a disk

	// life is nil while the machine is off. Reading it does not block.
	life atomic.Pointer[life]

	mu     sync.Mutex // held through every change of power
	port   *vnet.Port
	cancel context.CancelFunc // cancels the return of power; never nil
	gone   bool               // close was called

	watcher watcher
	handles atomic.Uint64 // of loads and limits
	limits  limits
}

// life is one stretch of power.
type life struct {
	first *os.Process                // the machine's first process
	began time.Time                  // when that had started
	ended chan struct{}              // closed when it has ended
	up    atomic.Bool                // the agent has answered
	still atomic.Pointer[standstill] // nil while its processes run
	// pause ends the standstill; guarded by the machine's mu.
	pause expiry.Timers[*standstill]
}

// machineDevice is a machine's network device.
const machineDevice = "eth0"

// agentUp is how long a machine may take from power-on until its agent answers.
const agentUp = 30 * time.Second

func newMachine(name string, addr netip.Prefix, sw *vnet.Switch, dir, run, logs string) (*machine, error) {
	for _, d := range []string{dir, run, logs} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("failed to make a directory for machine %s: %w", name, err)
		}
	}
	m := &machine{name: name, addr: addr, sw: sw, dir: dir, run: run, logs: logs, cancel: func() {}}
	m.config.Config = agent.Config{
		Socket: filepath.Join(run, "agent.sock"),
		Dir:    filepath.Join(run, "agent"),
		Exits:  filepath.Join(run, "exits"),
		Groups: filepath.Join(run, "groups"),
	}
	m.agent = agent.NewLocalClient(name, m.config.Socket)
	m.watcher.m, m.limits.m, m.limits.active = m, m, map[string]*activeLimit{}
	return m, nil
}

func (m *machine) boot(ctx context.Context) error {
	// A power cut deletes what a machine keeps in memory only.
	for _, f := range []string{m.config.Dir, m.config.Groups, m.config.Exits, m.config.Socket, m.agentHold()} {
		if err := os.RemoveAll(f); err != nil {
			return fmt.Errorf("failed to clear the agent's state: %w", err)
		}
	}
	if err := m.writeConfig(); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(m.logs, "node-agent.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("failed to open the agent's log: %w", err)
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	cmd := &exec.Cmd{Args: []string{roleInit}, Stdout: log, Stderr: log, ExtraFiles: []*os.File{r},
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
			syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC}}
	ended, err := system.Detach(cmd)
	_ = r.Close()
	if err != nil {
		return fmt.Errorf("failed to start its first process: %w", err)
	}
	l := &life{first: cmd.Process, began: time.Now(), ended: ended}
	m.life.Store(l)

	m.port, err = m.sw.Attach(vnet.PortConfig{Name: m.name, Netns: fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid),
		Device: machineDevice, Addrs: []netip.Prefix{m.addr}})
	if err != nil {
		return fmt.Errorf("failed to join the network: %w", err)
	}
	config := initConfig{Hostname: m.name, Hosts: m.hosts, NameServer: m.nameServer, Sysctls: m.sysctls, AgentConfig: m.configPath(),
		AgentHold: m.agentHold(), Exits: m.config.Exits}
	if err := json.NewEncoder(w).Encode(config); err != nil {
		return fmt.Errorf("failed to send its first process the configuration: %w", err)
	}
	if err := m.awaitAgent(ctx, l); err != nil {
		return err
	}
	l.up.Store(true)
	return nil
}

func (m *machine) awaitAgent(ctx context.Context, l *life) error {
	ctx, cancel := context.WithTimeout(ctx, agentUp)
	defer cancel()
	return await.Until(ctx, 5*time.Millisecond, func(ctx context.Context) error {
		select {
		case <-l.ended:
			return await.Fatal(fmt.Errorf("its first process exited; see %s", filepath.Join(m.logs, "node-agent.log")))
		default:
		}
		return m.agent.Ping(ctx)
	})
}

func (m *machine) configPath() string { return filepath.Join(m.run, "agent.json") }

func (m *machine) writeConfig() error {
	m.configMu.Lock()
	defer m.configMu.Unlock()
	if err := system.WriteJSON(m.configPath(), m.config); err != nil {
		return fmt.Errorf("failed to write the agent's configuration: %w", err)
	}
	return nil
}

// runsItself is a component that is this program under another name, the first of args.
func (m *machine) runsItself(c framework.Component, args ...string) agent.Component {
	return agent.Component{Name: c, Exec: &agent.Exec{Path: system.Self, Args: args, Dir: m.dir, Log: m.logOf(c)}}
}

// addProgram adds a component that is this program in a role, with the path of a file with its
// configuration as its only argument.
func (m *machine) addProgram(c framework.Component, file string, config any, role string) error {
	path := filepath.Join(m.dir, file)
	if err := system.WriteJSON(path, config); err != nil {
		return fmt.Errorf("failed to write the configuration of %s on %s: %w", c, m.name, err)
	}
	m.config.Components = append(m.config.Components, m.runsItself(c, role, path))
	return nil
}

func (m *machine) logOf(c framework.Component) string { return filepath.Join(m.logs, string(c)+".log") }

// components returns the machine's components.
func (m *machine) components() []agent.Component {
	m.configMu.Lock()
	defer m.configMu.Unlock()
	return slices.Clone(m.config.Components)
}

// renew changes the program or the arguments of a component's next start, also after a restart
// of the machine or its agent.
func (m *machine) renew(ctx context.Context, spec agent.Component) error {
	m.configMu.Lock()
	for i := range m.config.Components {
		if own := &m.config.Components[i]; own.Name == spec.Name {
			started := *own.Exec
			started.Path, started.Args = spec.Exec.Path, spec.Exec.Args
			own.Exec, spec.Exec = &started, &started
		}
	}
	m.configMu.Unlock()
	if err := m.writeConfig(); err != nil {
		return err
	}
	return m.agent.Renew(ctx, spec.Name, spec.Exec)
}
