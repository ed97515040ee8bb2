package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/framework/scratch"
)

// prefix is the prefix of the names of all trees.
const prefix = "holdfast-"

// Tree is a group with subgroups.
type Tree struct {
	Place
	dir  string
	lock *os.File
}

// maxTries is how often Make tries to create a tree while sweeps remove it.
const maxTries = 20

// Make creates a tree. It lasts until Remove or, if this process dies first, until a Sweep.
func (p Place) Make(name string) (*Tree, error) {
	for tries := 1; ; tries++ {
		dir, err := os.MkdirTemp(p.base, prefix+name+"-")
		if err != nil {
			var path *fs.PathError // its name says nothing
			if errors.As(err, &path) {
				err = path.Err
			}
			return nil, fmt.Errorf("failed to make a control group in %s: %w", p.base, err)
		}
		t := &Tree{Place: p, dir: dir}
		// A sweep may have locked or removed it in between.
		if t.lock, err = scratch.Hold(dir); errors.Is(err, scratch.ErrTaken) && tries < maxTries {
			continue
		}
		if err == nil && p.V2 {
			for _, c := range p.Controllers {
				err = errors.Join(err, enable(dir, c))
			}
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("failed to make control group %s: %w", dir, err), t.Remove())
		}
		return t, nil
	}
}

// Has reports whether the tree has a controller.
func (p Place) Has(c Controller) bool { return slices.Contains(p.Controllers, c) }

// Dir returns the directory of the tree.
func (t *Tree) Dir() string { return t.dir }

// Group returns the directory of a group in the tree, and creates it if needed.
func (t *Tree) Group(name string) (string, error) {
	dir := filepath.Join(t.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("failed to make a control group: %w", err)
	}
	return dir, nil
}

// Groups returns the names of the groups in the tree.
func (t *Tree) Groups() []string { return subgroups(t.dir) }

func subgroups(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// removeLimit is how long the processes of a removed group may take to move or die.
const removeLimit = 2 * time.Second

// RemoveGroup moves all processes of a group home, and removes it.
func (t *Tree) RemoveGroup(name string) error { return t.remove(filepath.Join(t.dir, name)) }

// Remove removes the tree. Its processes go home.
func (t *Tree) Remove() error {
	var errs []error
	for _, name := range t.Groups() {
		errs = append(errs, t.RemoveGroup(name))
	}
	errs = append(errs, t.remove(t.dir))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if t.lock != nil {
		_ = t.lock.Close()
	}
	return nil
}

func (t *Tree) remove(dir string) error {
	for deadline := time.Now().Add(removeLimit); ; time.Sleep(2 * time.Millisecond) {
		pids, err := Processes(dir)
		for _, pid := range pids {
			if err = Move(t.home, pid); err != nil {
				break
			}
		}
		if err == nil {
			err = unix.Rmdir(dir)
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("failed to remove control group %s: %w", dir, err)
		}
	}
}

// Processes returns the processes in a group, as PIDs of this process's PID namespace.
func Processes(dir string) ([]int, error) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, field := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(field); err == nil && pid != 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Move moves a process into a group; 0 means this one. A process that has exited is ignored.
func Move(dir string, pid int) error {
	err := write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid))
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// Home moves a process back to this process's group.
func (t *Tree) Home(pid int) error { return Move(t.home, pid) }

// dyingLimit is how long a sweep waits for the processes of a tree without an owner: with a CPU
// quota they take seconds to exit on a busy machine.
const dyingLimit = 5 * time.Second

// Sweep removes the trees of dead processes. It does not affect a tree that is in use: such a
// tree is locked, and a group that has processes cannot be removed.
func Sweep() error {
	places, _ := Find()
	var errs []error
	for _, p := range places {
		for _, name := range subgroups(p.base) {
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			dir := filepath.Join(p.base, name)
			lock, err := scratch.Hold(dir)
			if errors.Is(err, scratch.ErrTaken) {
				continue
			} else if err != nil {
				errs = append(errs, err)
				continue
			}
			// Its processes die with its owner, which takes a moment. If they do not, they are
			// not ours to kill.
			if err := RemoveAll(dir, time.Now().Add(dyingLimit)); err != nil && !errors.Is(err, unix.EBUSY) {
				errs = append(errs, err)
			}
			_ = lock.Close()
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("failed to remove control groups that were left behind: %w", err)
	}
	return nil
}

// RemoveAll removes a group and its subgroups, which have no processes, or will have none before a
// deadline.
func RemoveAll(dir string, deadline time.Time) error {
	var below []error
	for _, name := range subgroups(dir) {
		below = append(below, RemoveAll(filepath.Join(dir, name), deadline))
	}
	if err := errors.Join(below...); err != nil {
		return err
	}
	for ; ; time.Sleep(2 * time.Millisecond) {
		switch err := unix.Rmdir(dir); {
		case err == nil, errors.Is(err, fs.ErrNotExist):
			return nil
		case !errors.Is(err, unix.EBUSY), time.Now().After(deadline):
			return fmt.Errorf("failed to remove control group %s: %w", dir, err)
		}
	}
}

// write writes to an existing file: only the kernel creates files of groups.
func write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}
