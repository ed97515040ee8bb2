package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// A load is a process of its own on the machine, a child of the node agent. It exits when its
// time to live is over, and with the machine; its arguments identify it, so no state is needed.

// loadSpec is the configuration of a load process, as JSON in its second argument; its first
// one is the handle.
type loadSpec struct {
	Handle string        `json:"handle"`
	Loops  int           `json:"loops,omitempty"`
	Memory int64         `json:"memory,omitempty"`
	For    time.Duration `json:"for"`
	// Groups are files of control groups to join first.
	Groups []string `json:"groups,omitempty"`
}

// oomFirst makes a process the first one that the OOM killer kills.
const oomFirst = "1000"

// startLoad starts a load process, and does not wait for it.
func startLoad(spec loadSpec) error {
	if spec.For <= 0 {
		return agent.ErrNoTTL
	}
	if free, err := system.AvailableMemory(); err != nil {
		return err
	} else if spec.Memory > int64(free/2) {
		return fmt.Errorf("a load of %d bytes is more than half of the %d bytes of memory that are available; ask for less", spec.Memory, free)
	}
	b, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{Args: []string{roleLoad, spec.Handle, string(b)}, Stdout: os.Stdout, Stderr: os.Stderr}
	if _, err := system.Detach(cmd); err != nil {
		return fmt.Errorf("failed to start a load process: %w", err)
	}
	return nil
}

func kibibytes(s string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(s), " kB"), 10, 64)
	return n << 10, err
}

// runLoad is a load process.
func runLoad(args []string) error {
	var spec loadSpec
	if len(args) != 2 || json.Unmarshal([]byte(args[1]), &spec) != nil || spec.For <= 0 {
		return errors.New("usage: holdfast-load HANDLE SPEC")
	}
	over := time.After(spec.For)
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(oomFirst), 0o644); err != nil {
		return fmt.Errorf("failed to raise its own oom_score_adj: %w", err)
	}
	if err := agent.JoinGroups(spec.Groups, 0); err != nil {
		return fmt.Errorf("failed to join a control group: %w", err)
	}
	if spec.Loops < 0 {
		spec.Loops = runtime.NumCPU()
	}
	runtime.GOMAXPROCS(spec.Loops + 1) // one for the timer
	for range spec.Loops {
		go func() {
			for n := 0; ; n++ { // only uses processor time
			}
		}()
	}
	if spec.Memory > 0 {
		memory, err := unix.Mmap(-1, 0, int(spec.Memory), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return fmt.Errorf("failed to allocate %d bytes of memory: %w", spec.Memory, err)
		}
		go touch(memory)
	}
	<-over
	return nil
}

// touch writes to every page repeatedly, so that none is swapped out.
func touch(memory []byte) {
	for n := byte(1); ; n++ {
		for i := 0; i < len(memory); i += os.Getpagesize() {
			memory[i] = n
		}
		time.Sleep(time.Second)
	}
}

// loaded implements the abilities to put a machine under load, by a process on it, and to limit
// its processes by control groups.
type loaded struct{ m *machine }

// Press implements framework.Presser.
func (l loaded) Press(ctx context.Context, p framework.Pressure, ttl time.Duration) (string, error) {
	if !l.m.powered() {
		return "", fmt.Errorf("failed to put load on %s: it is powered off", l.m.name)
	}
	spec := loadSpec{Handle: fmt.Sprintf("%s-%d", l.m.name, l.m.handles.Add(1)), Loops: p.Loops, Memory: p.Memory, For: ttl}
	if p.Within != "" {
		var err error
		if spec.Groups, err = l.m.limits.files(p.Within); err != nil {
			return "", err
		}
	}
	if err := l.m.agent.Call(ctx, pressPath, "start a load", spec, nil); err != nil {
		// If it was started nevertheless, its handle is lost.
		return "", errors.Join(err, l.Relieve(ctx, spec.Handle))
	}
	return spec.Handle, nil
}

// PresserOf implements framework.HostPresser.
func (c *Cluster) PresserOf(host string) (framework.Presser, error) {
	for _, m := range []*machine{c.balancer, c.workers} {
		if m != nil && m.name == host {
			return loaded{m}, nil
		}
	}
	return nil, fmt.Errorf("cluster %s has no host %q that could be put under load", c.Name(), host)
}

// load returns the process of a load, nil if none exists. It reads the machine's /proc, since
// the agent may be frozen.
func (l loaded) load(handle string) (*machineProcess, error) {
	proc, err := l.m.proc()
	if err != nil {
		return nil, nil // without power nothing runs
	}
	pids, err := procfs.Find(proc, func(args []string) bool { return len(args) == 3 && args[0] == roleLoad && args[1] == handle })
	if err != nil && l.m.powered() {
		return nil, fmt.Errorf("failed to look for load %s on %s: %w", handle, l.m.name, err)
	}
	for _, pid := range pids {
		if st, err := procfs.ReadStat(proc, pid); err == nil && !st.Ended() {
			return &machineProcess{procfs.Process{Proc: proc, PID: pid, Stat: st}}, nil
		}
	}
	return nil, nil
}

// Relieve implements framework.Presser.
func (l loaded) Relieve(ctx context.Context, handle string) error {
	p, err := l.load(handle)
	if err != nil || p == nil {
		return err
	}
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("failed to stop load %s on %s: %w", handle, l.m.name, err)
	}
	return p.gone(ctx)
}

// Load implements framework.Presser.
func (l loaded) Load(_ context.Context, handle string) (framework.Load, error) {
	p, err := l.load(handle)
	if err != nil || p == nil {
		return framework.Load{}, err
	}
	load := framework.Load{PID: p.PID, StartTicks: p.StartTicks, CPUTime: p.CPU}
	read := func(file string) string {
		b, readErr := os.ReadFile(filepath.Join(p.Proc, strconv.Itoa(p.PID), file))
		err = errors.Join(err, readErr)
		return string(bytes.TrimSpace(b))
	}
	load.OOMScoreAdj, _ = strconv.Atoi(read("oom_score_adj"))
	for line := range strings.Lines(read("smaps_rollup")) {
		if rest, ok := strings.CutPrefix(line, "Anonymous:"); ok {
			load.Anonymous, _ = kibibytes(rest)
		}
	}
	if err != nil && p.Over() {
		return framework.Load{}, nil
	}
	return load, err
}
