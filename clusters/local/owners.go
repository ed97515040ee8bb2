package local

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// owners returns all processes of the machine, as PIDs in the sandbox, with the component that
// each belongs to: "" for none. The agent's saved state identifies the processes that it
// started; their descendants are found by their parents.
func (m *machine) owners() (map[int]framework.Component, error) {
	first := m.pid()
	if first == 0 {
		return nil, nil
	}
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", first))
	if err != nil {
		if !m.powered() {
			return nil, nil
		}
		return nil, fmt.Errorf("failed to look for the processes of %s: %w", m.name, err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	parents, inner := map[int]int{}, map[int]int{} // inner: by number in the machine
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if ns, err := os.Readlink(filepath.Join("/proc", e.Name(), "ns/pid")); err != nil || ns != namespace {
			continue
		}
		if st, err := procfs.ReadStat("/proc", pid); err == nil && !st.Ended() {
			parents[pid] = st.Parent
			inner[innerPID(pid)] = pid
		}
	}
	processes, err := agent.KnownProcesses(m.config.Dir)
	if err != nil {
		return nil, fmt.Errorf("failed to look for the processes of %s: %w", m.name, err)
	}
	owners := map[int]framework.Component{}
	for _, p := range processes {
		if pid, ok := inner[p.PID]; ok {
			if st, err := procfs.ReadStat("/proc", pid); err == nil && st.StartTicks == p.StartTicks {
				owners[pid] = p.Component
			}
		}
	}
	roots := maps.Clone(owners)
	for pid := range parents {
		// No chain of parents is longer than the number of processes.
		for at, steps := pid, 0; at != 0 && steps <= len(parents); at, steps = parents[at], steps+1 {
			if c, ok := roots[at]; ok {
				owners[pid] = c
				break
			}
		}
		if _, ok := owners[pid]; !ok {
			owners[pid] = ""
		}
	}
	return owners, nil
}

// innerPID returns the PID of a process in its own namespace, 0 if it has exited.
func innerPID(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			f := strings.Fields(rest)
			n, _ := strconv.Atoi(f[len(f)-1])
			return n
		}
	}
	return 0
}

// writeJoin writes the file of agent.Config.Groups, or removes it if no group is to be joined.
func writeJoin(file string, join map[framework.Component][]string) error {
	if len(join) == 0 {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("failed to clear the list of control groups to join: %w", err)
		}
		return nil
	}
	if err := system.WriteJSON(file, join); err != nil {
		return fmt.Errorf("failed to record which control groups to join: %w", err)
	}
	return nil
}
