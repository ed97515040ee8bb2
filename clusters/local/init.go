package local

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/clusters/sandbox"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// initConfig is the configuration of a machine's first process, passed on descriptor 3 once the
// machine's network is up.
type initConfig struct {
	Hostname string `json:"hostname"`
	// Hosts is the file to mount over /etc/hosts.
	Hosts string `json:"hosts"`
	// NameServer is the address of the machine's DNS server; empty for none.
	NameServer string `json:"nameServer,omitempty"`
	// Sysctls are kernel settings of the machine's network.
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// AgentConfig is the file with the agentConfig.
	AgentConfig string `json:"agentConfig"`
	// AgentHold is the file that holds the agent down; see held.
	AgentHold string `json:"agentHold"`
	// Exits is the file that records exits of orphans and of agents.
	Exits string `json:"exits"`
}

// agentRestartDelay prevents a tight loop of restarts if the agent exits immediately.
const agentRestartDelay = 100 * time.Millisecond

// holdPause is how often the first process checks whether a hold of the agent
// has ended.
const holdPause = 5 * time.Millisecond

// agentExit replaces the PID in a record of an agent's exit.
const agentExit = "agent"

// runInit is the first process of a machine. It keeps the node agent running and reaps the
// processes whose agent has died; killing it is unplugging the machine.
func runInit() error {
	in := os.NewFile(3, "init config")
	var cfg initConfig
	if err := json.NewDecoder(in).Decode(&cfg); err != nil {
		return fmt.Errorf("failed to read the machine's configuration: %w", err)
	}
	_ = in.Close()
	if err := setUpMachine(cfg); err != nil {
		return err
	}
	exits, err := os.OpenFile(cfg.Exits, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("failed to open the log of exits: %w", err)
	}
	agent := &agentKeeper{config: cfg.AgentConfig, hold: cfg.AgentHold}
	if err := agent.start(); err != nil {
		return err
	}
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err == syscall.ECHILD:
			// The agent and its children are gone, and a hold prevents the start of the next
			// one.
			time.Sleep(agentRestartDelay)
		case err != nil:
			return fmt.Errorf("failed to wait for processes: %w", err)
		case agent.ended(pid):
			fmt.Fprintf(exits, "%s %s\n", agentExit, procfs.ExitWords(ws))
			go agent.restart()
		default:
			// One short write, so that a reader sees whole lines only.
			fmt.Fprintf(exits, "%d %s\n", pid, procfs.ExitWords(ws))
		}
	}
}

// agentKeeper starts and restarts a machine's node agent.
type agentKeeper struct {
	config, hold string

	mu  sync.Mutex // held through a start, so that no exit is missed
	pid int
}

func (k *agentKeeper) start() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	cmd := &exec.Cmd{Path: system.Self, Args: []string{roleAgent, k.config}, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("failed to start the node agent: %w", err)
	}
	k.pid = cmd.Process.Pid
	return cmd.Process.Release() // it is reaped by PID
}

// ended reports whether the exited process was the agent.
func (k *agentKeeper) ended(pid int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if pid != k.pid {
		return false
	}
	k.pid = 0
	return true
}

// restart starts the next agent, once it is not held down.
func (k *agentKeeper) restart() {
	for {
		time.Sleep(agentRestartDelay)
		for held(k.hold) {
			time.Sleep(holdPause)
		}
		err := k.start()
		if err == nil {
			return
		}
		fmt.Fprintln(os.Stderr, err)
	}
}

func setUpMachine(cfg initConfig) error {
	if err := sandbox.Furnish(); err != nil {
		return err
	}
	sandbox.SetCongestionControl()
	if err := system.SetSysctls(cfg.Sysctls); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(cfg.Hostname)); err != nil {
		return fmt.Errorf("failed to set the host name: %w", err)
	}
	if err := sandbox.BindOver(cfg.Hosts, "/etc/hosts"); err != nil {
		return err
	}
	resolv, text := filepath.Join(filepath.Dir(cfg.Exits), "resolv.conf"), ""
	if cfg.NameServer != "" {
		text = fmt.Sprintf(resolvConf, cfg.NameServer)
	}
	if err := os.WriteFile(resolv, []byte(text), 0o644); err != nil {
		return fmt.Errorf("failed to write resolv.conf: %w", err)
	}
	return sandbox.BindOver(resolv, "/etc/resolv.conf")
}
