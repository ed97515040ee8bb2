package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/local/disk"
	"github.com/holdfast-ha/holdfast/clusters/vnet"
)

// machine is a host of the cluster: a child process in network, PID, UTS, IPC
// and mount namespaces of its own, with a port on the switch.
type machine struct {
	name   string
	addr   netip.Prefix
	sw     *vnet.Switch
	dir    string // the machine's disk; it outlives a power cut
	run    string // what only the living machine needs: sockets, the agent's state
	hosts  string
	logs   string
	config agentConfig
	agent  *agentClient
	disk   *disk.Process // nil where etcd's data pass through nothing

	mu    sync.Mutex
	cmd   *exec.Cmd // nil while the machine is off
	port  *vnet.Port
	ended chan struct{} // closed when cmd has been waited for
	timer *time.Timer   // brings power back
	gone  bool          // close was called
}

// agentUp is how long a machine may take from power-on until its agent answers.
const agentUp = 30 * time.Second

func newMachine(name string, addr netip.Prefix, sw *vnet.Switch, dir, run, hosts, logs string) (*machine, error) {
	for _, d := range []string{dir, run, logs} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("making a directory for machine %s: %w", name, err)
		}
	}
	m := &machine{name: name, addr: addr, sw: sw, dir: dir, run: run, hosts: hosts, logs: logs}
	m.config = agentConfig{
		Socket: filepath.Join(run, "agent.sock"),
		State:  filepath.Join(run, "agent.state"),
		Exits:  filepath.Join(run, "exits"),
	}
	m.agent = newAgentClient(name, m.config.Socket)
	return m, nil
}

// powerOn starts the machine with the disk it had, and returns when its agent
// answers. It does nothing where the machine is on.
func (m *machine) powerOn(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
	if m.cmd != nil {
		return nil
	}
	if m.gone {
		return fmt.Errorf("machine %s belongs to a cluster that has ended", m.name)
	}
	if err := m.boot(ctx); err != nil {
		m.pullPlug()
		return fmt.Errorf("starting machine %s: %w", m.name, err)
	}
	return nil
}

func (m *machine) boot(ctx context.Context) error {
	// What a machine keeps in memory only is gone after a power cut.
	for _, f := range []string{m.config.State, m.config.Exits, m.config.Socket} {
		if err := os.Remove(f); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("clearing the agent's state: %w", err)
		}
	}
	configPath := filepath.Join(m.run, "agent.json")
	b, err := json.Marshal(m.config)
	if err == nil {
		err = os.WriteFile(configPath, b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the agent's configuration: %w", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program's own file: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(m.logs, "node-agent.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("opening the agent's log: %w", err)
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	cmd := &exec.Cmd{Path: exe, Args: []string{roleInit}, Stdout: log, Stderr: log, ExtraFiles: []*os.File{r},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
			syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC}}
	err = cmd.Start()
	_ = r.Close()
	if err != nil {
		return fmt.Errorf("starting its first process: %w", err)
	}
	m.cmd, m.ended = cmd, make(chan struct{})
	go func(ended chan struct{}) {
		_ = cmd.Wait()
		close(ended)
	}(m.ended)

	m.port, err = m.sw.Attach(vnet.PortConfig{Name: m.name, Netns: fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid),
		Device: "eth0", Addrs: []netip.Prefix{m.addr}})
	if err != nil {
		return fmt.Errorf("joining the network: %w", err)
	}
	if err := json.NewEncoder(w).Encode(initConfig{Hostname: m.name, Hosts: m.hosts, AgentConfig: configPath, Exits: m.config.Exits}); err != nil {
		return fmt.Errorf("telling its first process what to do: %w", err)
	}
	return m.awaitAgent(ctx)
}

func (m *machine) awaitAgent(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, agentUp)
	defer cancel()
	return poll(ctx, 5*time.Millisecond, func(ctx context.Context) error {
		select {
		case <-m.ended:
			return fatal(fmt.Errorf("its first process ended; see %s", filepath.Join(m.logs, "node-agent.log")))
		default:
		}
		_, err := m.agent.processes(ctx)
		return err
	})
}

// powerOff pulls the plug. Power comes back after ttl, or never if it is 0.
func (m *machine) powerOff(ttl time.Duration) error {
	return m.cutPower(ttl, func() error { return nil })
}

// cutPower pulls the plug, and does something to the disk that was left.
func (m *machine) cutPower(ttl time.Duration, then func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil {
		return fmt.Errorf("machine %s is off already", m.name)
	}
	m.pullPlug()
	err := then()
	if ttl > 0 {
		m.timer = time.AfterFunc(ttl, func() {
			if err := m.powerOn(context.Background()); err != nil {
				fmt.Fprintf(os.Stderr, "holdfast: bringing power back: %v\n", err)
			}
		})
	}
	return err
}

// pullPlug ends the machine. The network goes first and the device last:
// otherwise peers would get FIN or RST from a machine that is supposed to be
// silent, from the dying processes or from the namespace that outlives them.
// The disk stops at the same moment, so that the dying write nothing more.
func (m *machine) pullPlug() {
	if m.port != nil {
		m.port.Unplug()
	}
	if m.cmd != nil {
		defer m.freezeDisk()()
		_ = m.cmd.Process.Kill()
		m.awaitEnd()
		m.cmd = nil
	}
	if m.port != nil {
		_ = m.port.Close()
		m.port = nil
	}
	m.agent.http.CloseIdleConnections()
}

func (m *machine) powered() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cmd != nil
}

// pid returns the machine's first process, as the sandbox numbers it; 0 while
// the machine is off.
func (m *machine) pid() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil {
		return 0
	}
	return m.cmd.Process.Pid
}

// close ends the machine for good.
func (m *machine) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
	if m.timer != nil {
		m.timer.Stop()
	}
	m.pullPlug()
}

// fatalError ends a poll at once.
type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

func fatal(err error) error { return fatalError{err} }

// poll calls try until it returns no error. When ctx ends first, or try returns
// a fatal error, it returns the last error of try.
func poll(ctx context.Context, every time.Duration, try func(context.Context) error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		var f fatalError
		if errors.As(err, &f) {
			return f.error
		}
		// What the end of ctx itself broke says less than what came before.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (gave up: %w)", last, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
