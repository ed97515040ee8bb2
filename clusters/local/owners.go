package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// owners returns all processes of the machine, as the sandbox numbers them, with the
// component that each belongs to: "" for none. What the agent started is known by
// the state that it writes down, and those by their parents that came of it.
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
		return nil, fmt.Errorf("looking for the processes of %s: %w", m.name, err)
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
	state, err := m.agentState()
	if err != nil {
		return nil, err
	}
	owners := map[int]framework.Component{}
	for c, s := range state {
		if pid, ok := inner[s.PID]; ok && s.PID != 0 {
			if st, err := procfs.ReadStat("/proc", pid); err == nil && st.StartTicks == s.StartTicks {
				owners[pid] = c
			}
		}
	}
	roots := maps.Clone(owners)
	for pid := range parents {
		// No chain of parents is longer than there are processes.
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

// innerPID returns the number of a process in its own namespace, 0 if it has ended.
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

// agentState reads what the agent has written down. It is replaced as a whole, so
// that it can be read at any time.
func (m *machine) agentState() (map[framework.Component]savedState, error) {
	b, err := os.ReadFile(m.config.State)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing was started yet
	}
	var state map[framework.Component]savedState
	if err == nil {
		err = json.Unmarshal(b, &state)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the agent's state of %s: %w", m.name, err)
	}
	return state, nil
}

// joinFile names what the agent's processes have to join when they start: by
// component, the files to which they are written.
func (m *machine) joinFile() string { return m.config.State + joinSuffix }

const joinSuffix = ".groups"

// writeJoin writes such a file, or removes it where there is nothing to join.
func writeJoin(file string, join map[framework.Component][]string) error {
	if len(join) == 0 {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("taking back which control groups to join: %w", err)
		}
		return nil
	}
	b, err := json.Marshal(join)
	if err == nil {
		err = system.ReplaceFile(file, b, 0o600, false)
	}
	if err != nil {
		return fmt.Errorf("writing down which control groups to join: %w", err)
	}
	return nil
}

// join puts a process that was just started into the groups of its component. It is
// looked up then, after the process was written down: so either this finds a group
// that is being made, or whoever makes it finds the process.
func (a *agent) join(c framework.Component, pid int) {
	b, err := os.ReadFile(a.cfg.State + joinSuffix)
	if err != nil {
		return // nothing to join
	}
	var join map[framework.Component][]string
	if err = json.Unmarshal(b, &join); err == nil {
		err = joinGroups(join[c], pid)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "node agent: putting %s into its control group: %v\n", c, err)
	}
}

// joinGroups puts a process into groups, 0 standing for this one. A group that is
// gone was taken away together with its limit.
func joinGroups(files []string, pid int) error {
	for _, file := range files {
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		_, err = f.WriteString(strconv.Itoa(pid))
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
