package local

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
	"github.com/holdfast-ha/holdfast/clusters/local/cgroup"
	"github.com/holdfast-ha/holdfast/framework"
)

// limits keeps the processes of a machine in control groups while limits are active on them. It
// does not depend on the machine, whose agent may be frozen; but the agent puts new processes
// into the groups listed in a file.
//
// A tree has a group for each component with a limit of its own, and one for all others if the
// node as a whole has a limit: the tree's own limit is the node's.
type limits struct {
	m *machine

	mu     sync.Mutex
	active map[string]*activeLimit // by handle; guarded by mu
	trees  []*cgroup.Tree          // none while nothing is active; guarded by mu
	timers expiry.Timers[string]   // by handle; guarded by mu
}

type activeLimit struct {
	components []framework.Component // empty for the whole node
	limit      framework.Limit
}

// otherProcesses is the group of processes without a limit of their own.
const otherProcesses = "others"

// on reports whether a limit applies to a component, or with "" to the node itself.
func (f *activeLimit) on(c framework.Component) bool {
	if c == "" {
		return len(f.components) == 0
	}
	return slices.Contains(f.components, c)
}

// controller returns the controller that enforces a limit.
func controller(l framework.Limit) cgroup.Controller {
	if l.CPU > 0 {
		return cgroup.CPU
	}
	return cgroup.Memory
}

func (l *limits) begin(components []framework.Component, want framework.Limit, ttl time.Duration) (string, error) {
	if ttl <= 0 {
		return "", agent.ErrNoTTL
	}
	for _, c := range components {
		if !l.m.isMeantToRun(c) {
			return "", fmt.Errorf("%s does not run %s as a process that can have its own control group", l.m.name, c)
		}
	}
	places, err := limitPlaces(want)
	if err != nil {
		return "", err
	}
	if !l.m.powered() {
		return "", fmt.Errorf("failed to limit %s: it is powered off", l.m.name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.ContainsFunc(l.trees, func(t *cgroup.Tree) bool { return t.Has(controller(want)) }) {
		i := slices.IndexFunc(places, func(p cgroup.Place) bool { return p.Has(controller(want)) })
		t, err := places[i].Make(l.m.name)
		if err != nil {
			return "", err
		}
		l.trees = append(l.trees, t)
	}
	handle := fmt.Sprintf("%s-%d", l.m.name, l.m.handles.Add(1))
	f := &activeLimit{components: components, limit: want}
	l.active[handle] = f
	if err := l.settle(); err != nil {
		delete(l.active, handle)
		return "", errors.Join(err, l.settle())
	}
	l.timers.Start(&l.mu, handle, ttl, func() error { return l.drop(handle) })
	return handle, nil
}

func (l *limits) end(handle string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.drop(handle)
}

// drop removes a limit, if it is active. The caller holds the lock.
func (l *limits) drop(handle string) error {
	f := l.active[handle]
	if f == nil {
		return nil
	}
	delete(l.active, handle)
	if err := l.settle(); err != nil {
		l.active[handle] = f
		return err
	}
	l.timers.Stop(handle)
	return nil
}

// forget drops all limits: the machine has lost power, and its processes with it.
func (l *limits) forget() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timers.StopAll()
	clear(l.active)
	return l.settle()
}

// settle adjusts the groups to the active limits. The caller holds the lock.
func (l *limits) settle() error {
	if err := l.prune(); err != nil || len(l.trees) == 0 {
		return err
	}
	var errs []error
	join := map[framework.Component][]string{}
	for _, t := range l.trees {
		wanted := l.wanted(t)
		groups := map[framework.Component]string{}
		for _, c := range wanted {
			dir, err := t.Group(groupName(c))
			if err != nil {
				return err
			}
			groups[c] = dir
			if c != "" {
				join[c] = append(join[c], filepath.Join(dir, "cgroup.procs"))
			}
		}
		// A group's limit must not exceed its parent's, nor be below its children's: with two
		// rounds, both directions of change succeed.
		_ = l.write(t, groups)
		errs = append(errs, l.write(t, groups))
	}
	// From here on the agent handles new processes; those that it started before are in its
	// state.
	errs = append(errs, writeJoin(l.m.config.Groups, join))
	for _, t := range l.trees {
		wanted := l.wanted(t)
		errs = append(errs, l.move(t, wanted))
		for _, name := range t.Groups() {
			if !slices.ContainsFunc(wanted, func(c framework.Component) bool { return groupName(c) == name }) {
				errs = append(errs, t.RemoveGroup(name))
			}
		}
	}
	return errors.Join(errs...)
}

// prune removes the trees that no limit needs. The caller holds the lock.
func (l *limits) prune() error {
	var errs []error
	if len(l.active) == 0 && len(l.trees) > 0 {
		errs = append(errs, writeJoin(l.m.config.Groups, nil))
	}
	l.trees = slices.DeleteFunc(l.trees, func(t *cgroup.Tree) bool {
		if len(l.wanted(t)) > 0 {
			return false
		}
		err := t.Remove()
		errs = append(errs, err)
		return err == nil
	})
	return errors.Join(errs...)
}

func groupName(c framework.Component) string {
	return string(cmp.Or(c, otherProcesses))
}

// wanted returns the groups that a tree needs, by component: "" for the others.
func (l *limits) wanted(t *cgroup.Tree) []framework.Component {
	set := map[framework.Component]bool{}
	for _, f := range l.active {
		if !t.Has(controller(f.limit)) {
			continue
		}
		if len(f.components) == 0 {
			set[""] = true
		}
		for _, c := range f.components {
			set[c] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// strictest returns the effective limits of a component, or with "" of the node.
func (l *limits) strictest(c framework.Component) (cpu float64, soft, hard int64) {
	lower := func(now, other float64) float64 {
		if now == 0 || other > 0 && other < now {
			return other
		}
		return now
	}
	for _, f := range l.active {
		// A subgroup may not have more CPU time than its parent.
		if f.on(c) || f.on("") {
			cpu = lower(cpu, f.limit.CPU)
		}
		switch {
		case !f.on(c):
		case f.limit.Hard:
			hard = int64(lower(float64(hard), float64(f.limit.Memory)))
		default:
			soft = int64(lower(float64(soft), float64(f.limit.Memory)))
		}
	}
	return cpu, soft, hard
}

// write writes the limits of a tree and its groups.
func (l *limits) write(t *cgroup.Tree, groups map[framework.Component]string) error {
	var errs []error
	set := func(dir string, c framework.Component) {
		cpu, soft, hard := l.strictest(c)
		if t.Has(cgroup.CPU) {
			errs = append(errs, t.SetQuota(dir, cpu))
		}
		if t.Has(cgroup.Memory) {
			errs = append(errs, t.SetMemory(dir, soft, hard))
		}
	}
	for c, dir := range groups {
		if c != "" {
			set(dir, c)
		}
	}
	set(t.Dir(), "")
	return errors.Join(errs...)
}

// moveRounds is how often processes are searched for: one that is just starting may be missed
// once.
const moveRounds = 20

// move puts the machine's processes into the groups in which they should be.
func (l *limits) move(t *cgroup.Tree, wanted []framework.Component) error {
	for range moveRounds {
		places, err := l.places(t, wanted)
		if err != nil {
			return err
		}
		moved := false
		for dir, p := range places {
			for _, pid := range p.outside {
				moved = true
				if dir == "" {
					err = t.Home(pid)
				} else {
					err = cgroup.Move(dir, pid)
				}
				if err != nil {
					return fmt.Errorf("failed to put process %d of %s into its control group: %w", pid, l.m.name, err)
				}
			}
		}
		if !moved {
			return nil
		}
	}
	return fmt.Errorf("the processes of %s start faster than holdfast can move them to control groups", l.m.name)
}

// place lists the processes that should be in a group, are in it, and are not.
type place struct{ inside, outside []int }

// places returns those of a tree by their directories; "" is outside the tree.
func (l *limits) places(t *cgroup.Tree, wanted []framework.Component) (map[string]*place, error) {
	owners, err := l.m.owners()
	if err != nil {
		return nil, err
	}
	is := map[int]string{}
	for _, name := range t.Groups() {
		dir := filepath.Join(t.Dir(), name)
		pids, err := cgroup.Processes(dir)
		if err != nil {
			return nil, err
		}
		for _, pid := range pids {
			is[pid] = dir
		}
	}
	places := map[string]*place{"": {}}
	for _, c := range wanted {
		places[filepath.Join(t.Dir(), groupName(c))] = &place{}
	}
	for pid, owner := range owners {
		should := ""
		if slices.Contains(wanted, owner) {
			should = filepath.Join(t.Dir(), groupName(owner))
		} else if slices.Contains(wanted, "") {
			should = filepath.Join(t.Dir(), otherProcesses)
		}
		if p := places[should]; is[pid] == should {
			p.inside = append(p.inside, pid)
		} else {
			p.outside = append(p.outside, pid)
		}
	}
	return places, nil
}

// read reports the kernel's state of a limit.
func (l *limits) read(handle string) (framework.LimitReading, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := framework.LimitReading{}
	f := l.active[handle]
	r.Active = f != nil
	if f == nil {
		for _, t := range l.trees {
			wanted := l.wanted(t)
			for _, name := range t.Groups() {
				if !slices.ContainsFunc(wanted, func(c framework.Component) bool { return groupName(c) == name }) {
					r.Left = append(r.Left, filepath.Join(t.Dir(), name))
				}
			}
			if len(wanted) == 0 {
				r.Left = append(r.Left, t.Dir())
			}
		}
		return r, nil
	}
	i := slices.IndexFunc(l.trees, func(t *cgroup.Tree) bool { return t.Has(controller(f.limit)) })
	t := l.trees[i]
	places, err := l.places(t, l.wanted(t))
	if err != nil {
		return r, err
	}
	r.Group = t.Dir()
	for dir, p := range places {
		// Processes of the whole node should all be somewhere in its tree.
		if whole := len(f.components) == 0; whole || slices.ContainsFunc(f.components, func(c framework.Component) bool { return groupName(c) == filepath.Base(dir) }) {
			r.Inside += len(p.inside)
			r.Outside = append(r.Outside, p.outside...)
			if !whole {
				r.Group = dir
			}
		}
	}
	u, err := t.Usage(r.Group)
	u.Active, u.Group, u.Inside, u.Outside = r.Active, r.Group, r.Inside, r.Outside
	return u, err
}

// files returns where a process of the machine writes to join the group of a limit.
func (l *limits) files(handle string) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.active[handle]
	if f == nil {
		return nil, fmt.Errorf("no limit %s is active on %s", handle, l.m.name)
	}
	name := otherProcesses
	if len(f.components) > 0 {
		name = groupName(f.components[0])
	}
	var files []string
	for _, t := range l.trees {
		if t.Has(controller(f.limit)) {
			files = append(files, filepath.Join(t.Dir(), name, "cgroup.procs"))
		}
	}
	return files, nil
}
