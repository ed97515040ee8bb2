package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// state is what an agent's successor must know. The successor uses the wall-clock times; the
// agent that set them uses the monotonic clock, which its own times also carry.
type state struct {
	// Boot identifies the boot of the node during which it was written.
	Boot       string                                  `json:"boot"`
	Components map[framework.Component]*componentState `json:"components,omitempty"`
	Spoilt     map[framework.Component]*spoiltState    `json:"spoilt,omitempty"`
	Wiped      *wipedState                             `json:"wiped,omitempty"`
	Filled     *filledState                            `json:"filled,omitempty"`
	Peers      []Peer                                  `json:"peers,omitempty"`
	Impaired   map[string]*impairedState               `json:"impaired,omitempty"`
	Restored   []restoredState                         `json:"restored,omitempty"`
	// Filters are the reverse path filters (rp_filter) before a detour changed them, by device.
	Filters  map[string]int                 `json:"filters,omitempty"`
	Links    map[string]framework.LinkState `json:"links,omitempty"`
	Promises map[string]*promiseState       `json:"promises,omitempty"`
	// Shifts are active clock shifts, by handle; Shifted says that a clock was shifted since
	// the node started.
	Shifts  map[string]shiftState `json:"shifts,omitempty"`
	Shifted bool                  `json:"shifted,omitempty"`
	// Lapsed is when everything was last healed, for example by the leash.
	Lapsed time.Time `json:"lapsed,omitzero"`
	// Counted are the kernel's counters when an agent last read them.
	Counted map[string]uint64 `json:"counted,omitempty"`
	// Restoring is the directory that receives other data of etcd, before they take the place of the
	// member's.
	Restoring *restoringState `json:"restoringEtcd,omitempty"`
}

// componentState is what is known of a component, and its faults.
type componentState struct {
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
	// AdmittedUntil is until when a supervised component may run, on the monotonic clock.
	AdmittedUntil time.Duration `json:"admittedUntil,omitzero"`
	// Joins is the initial cluster of an etcd member that has no data yet.
	Joins string `json:"joins,omitempty"`
	// Shim is the shim of the process seen last; Stopped are the shims that are stopped or
	// about to be.
	Shim    shim   `json:"shim,omitzero"`
	Stopped []shim `json:"stopped,omitempty"`
	// Spec is the component as the agent was configured with it, unless the agent starts it.
	Spec Component `json:"spec,omitzero"`
}

func newState() state {
	return state{Components: map[framework.Component]*componentState{}, Spoilt: map[framework.Component]*spoiltState{},
		Impaired: map[string]*impairedState{}, Promises: map[string]*promiseState{}, Links: map[string]framework.LinkState{},
		Filters: map[string]int{}, Shifts: map[string]shiftState{}}
}

// faulty reports whether a fault is active.
func (c *componentState) faulty() bool {
	return !c.HoldUntil.IsZero() || !c.ThawAt.IsZero() || !c.CrashUntil.IsZero() || len(c.Stopped) > 0
}

// outlasts reports whether a fault is active that outlasts a loss of power.
func (st *state) outlasts() bool {
	return len(st.Spoilt) > 0 || st.Wiped != nil || st.Filled != nil || len(st.Promises) > 0 || st.Restoring != nil
}

// store keeps the state in a file.
type store struct {
	file string

	// config is the agent's; without components, the shell script heals nothing.
	config Config
	// replace is system.ReplaceFile, except in tests.
	replace func(path string, data []byte, mode os.FileMode, durable bool, prepare ...func(*os.File) error) error

	mu      sync.Mutex
	s       state  // guarded by mu
	healing string // guarded by mu: the script in undoFile
}

func stateFile(dir string) string { return filepath.Join(dir, "state.json") }

// openStore reads the state. A file that cannot be read is moved aside: an agent that did not
// start would heal nothing. What it would have healed its script heals; see healLost.
func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("failed to make the agent's directory: %w", err)
	}
	s := &store{file: stateFile(dir), replace: system.ReplaceFile, s: newState()}
	b, err := os.ReadFile(s.file)
	lost := errors.Is(err, fs.ErrNotExist)
	if err == nil {
		if err = json.Unmarshal(b, &s.s); err != nil {
			lost = true
			fmt.Fprintf(os.Stderr, "node agent: its state cannot be read and is put aside as %s.broken: %v\n", s.file, err)
			s.s = newState()
			err = os.Rename(s.file, s.file+".broken")
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("failed to read the agent's state: %w", err)
	}
	// An earlier agent's script is removed with what it heals.
	if script, err := os.ReadFile(undoFile(dir)); err == nil {
		s.healing = string(script)
		if lost {
			if err := s.keepLost(); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// complete adds to a configuration what it lacks to heal what is active: it may have been made while a
// fault held a component down, or kept etcd from running without its data.
func (s *store) complete(c Config) Config {
	s.read(func(st *state) {
		for _, name := range slices.Sorted(maps.Keys(st.Components)) {
			one := st.Components[name]
			known := slices.ContainsFunc(c.Components, func(k Component) bool { return k.Name == name })
			data := name == framework.Etcd && (st.Wiped != nil || st.Filled != nil)
			if !known && one.Spec.Name == name && (data || one.faulty()) {
				c.Components = append(slices.Clip(c.Components), one.Spec)
			}
		}
		if st.Wiped != nil && st.Wiped.Data != "" {
			c.EtcdData = st.Wiped.Data
		}
	})
	return c
}

// update changes the state and saves it. If saving fails the change still applies: a caller
// that is about to begin a fault reverts it. Faults should take effect immediately, so update
// does not wait for the disk: a restart of the node loses nothing that was written. It does if a fault
// is active, before or after the change, that must be healed even after the machine under the node
// lost power: also the file that is replaced must not be lost.
func (s *store) update(change func(*state)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	durable := s.s.outlasts()
	change(&s.s)
	durable = durable || s.s.outlasts()
	b, err := json.Marshal(&s.s)
	if err == nil {
		err = s.replace(s.file, b, 0o600, durable)
	}
	if err == nil {
		err = s.writeHealing(durable)
	}
	if err != nil {
		return fmt.Errorf("failed to write the agent's state: %w", err)
	}
	return nil
}

// note is update for changes other than the start of a fault: if saving the end of a fault
// fails, it is healed twice.
func (s *store) note(change func(*state)) {
	if err := s.update(change); err != nil {
		complain(err)
	}
}

func (s *store) read(look func(*state)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	look(&s.s)
}

// KnownProcesses reads from an agent's directory which processes of its components ran when it
// last saved them. It does not ask an agent, which may be frozen.
func KnownProcesses(dir string) (all []framework.Process, err error) {
	var s state
	if err := system.ReadJSON(stateFile(dir), &s); errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing has been started yet
	} else if err != nil {
		return nil, fmt.Errorf("failed to read the agent's state: %w", err)
	}
	for name, c := range s.Components {
		if c.PID != 0 {
			all = append(all, framework.Process{Component: name, PID: c.PID, StartTicks: c.StartTicks})
		}
	}
	return all, nil
}

func complain(err error) { fmt.Fprintf(os.Stderr, "node agent: %v\n", err) }

// boot identifies this boot of the node: no other process is the first one of its PID
// namespace, on this kernel since its boot.
func boot() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	first, statErr := procfs.ReadStat("/proc", 1)
	if err := errors.Join(err, statErr); err != nil {
		return "", fmt.Errorf("failed to detect a restart of the node: %w", err)
	}
	return fmt.Sprintf("%s-%d", strings.TrimSpace(string(id)), first.StartTicks), nil
}
