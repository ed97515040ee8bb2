package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Controller is what limits something.
type Controller string

// The controllers that this package knows.
const (
	CPU    Controller = "cpu"
	Memory Controller = "memory"
)

// Place is a group in which trees can be made.
type Place struct {
	// Controllers are the controllers that its trees can use.
	Controllers []Controller
	// V2 says that it is in the unified hierarchy.
	V2 bool
	// base is the directory in which trees are created, home that of this process's group.
	base, home string
}

// system contains the kernel's files about groups; tests have their own.
type system struct{ mounts, own string }

var here = system{mounts: "/proc/self/mountinfo", own: "/proc/self/cgroup"}

// Find returns the places for trees, one for each hierarchy that has a required controller and
// lets this process create groups, and for each controller without a place the reason.
func Find() ([]Place, map[Controller]error) { return here.find() }

func (s system) find() ([]Place, map[Controller]error) {
	none := errors.New("no cgroup hierarchy makes this controller available to this process")
	all, err := s.hierarchies()
	if err != nil {
		none = err
	}
	errs := map[Controller]error{CPU: none, Memory: none}
	var places []Place
	for _, h := range all {
		if p := h.settle(errs); len(p.Controllers) > 0 {
			places = append(places, p)
		}
	}
	return places, errs
}

// settle finds the base of a place. It removes the error of each controller found from errs, or
// replaces it by a better one.
func (p Place) settle(errs map[Controller]error) Place {
	var found []Controller
	for dir := p.home; ; dir = filepath.Dir(dir) {
		p.base = dir
		found = nil
		for _, c := range p.Controllers {
			if err := p.usable(c); err != nil {
				if errs[c] != nil {
					errs[c] = err
				}
				continue
			}
			found = append(found, c)
		}
		// In version 2 the subgroups of this process's group can have controllers only if the
		// group itself has no processes: look further up.
		if len(found) > 0 || !p.V2 || !isGroup(filepath.Dir(dir)) {
			break
		}
	}
	for _, c := range found {
		delete(errs, c)
	}
	p.Controllers = found
	return p
}

// usable tries to create a group that has a controller.
func (p Place) usable(c Controller) error {
	if p.V2 {
		if err := enable(p.base, c); err != nil {
			return err
		}
	}
	p.Controllers = []Controller{c}
	t, err := p.Make("probe")
	if err != nil {
		return err
	}
	defer t.Remove()
	for _, file := range []string{"cgroup.procs", limitFile(p.V2, c)} {
		f, err := os.OpenFile(filepath.Join(t.dir, file), os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("failed to open a file of a new group: %w", err)
		}
		_ = f.Close()
	}
	// A process that is moved here must be able to move back.
	f, err := os.OpenFile(filepath.Join(p.home, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("failed to open the file of this process's own group: %w", err)
	}
	return f.Close()
}

// enable enables a controller for the subgroups of a group of version 2.
func enable(dir string, c Controller) error {
	file := filepath.Join(dir, "cgroup.subtree_control")
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if slices.Contains(strings.Fields(string(b)), string(c)) {
		return nil
	}
	return write(file, "+"+string(c))
}

func isGroup(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.procs"))
	return err == nil
}

// hierarchies returns the mounted hierarchies with relevant controllers, and this process's
// group in each.
func (s system) hierarchies() ([]Place, error) {
	mounts, err := os.ReadFile(s.mounts)
	if err != nil {
		return nil, fmt.Errorf("failed to look for control groups: %w", err)
	}
	own, err := os.ReadFile(s.own)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("this kernel has no control groups")
	} else if err != nil {
		return nil, fmt.Errorf("failed to look for control groups: %w", err)
	}
	paths := map[string]string{} // by list of controllers; empty for version 2
	for line := range strings.Lines(string(own)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			for _, c := range strings.Split(f[1], ",") {
				paths[c] = f[2]
			}
		}
	}
	var all []Place
	for _, m := range parseMounts(string(mounts)) {
		p := Place{V2: m.V2}
		var path string
		if m.V2 {
			path = paths[""]
		} else {
			for _, option := range m.options {
				if c := Controller(option); c == CPU || c == Memory {
					p.Controllers = append(p.Controllers, c)
					path = paths[option]
				}
			}
		}
		below, err := filepath.Rel(m.root, path)
		if path == "" || err != nil || strings.HasPrefix(below, "..") {
			continue // mounted from another place than that of this process
		}
		p.home = filepath.Join(m.Dir, below)
		if p.V2 {
			b, _ := os.ReadFile(filepath.Join(p.home, "cgroup.controllers"))
			for _, c := range []Controller{CPU, Memory} {
				if slices.Contains(strings.Fields(string(b)), string(c)) {
					p.Controllers = append(p.Controllers, c)
				}
			}
		}
		if len(p.Controllers) > 0 {
			all = append(all, p)
		}
	}
	return all, nil
}

// Mount is where a hierarchy is mounted.
type Mount struct {
	Dir string
	V2  bool
	// root is the group that is at Dir, and options are the hierarchy's: its
	// controllers among them, in version 1.
	root    string
	options []string
}

// Mounts returns where hierarchies are mounted, whatever their controllers.
func Mounts() ([]Mount, error) {
	b, err := os.ReadFile(here.mounts)
	if err != nil {
		return nil, fmt.Errorf("failed to look for control groups: %w", err)
	}
	return parseMounts(string(b)), nil
}

func parseMounts(text string) []Mount {
	var all []Mount
	for line := range strings.Lines(text) {
		// 30 23 0:26 ROOT MOUNT OPTIONS [TAGS] - TYPE SOURCE SUPEROPTIONS
		front, back, ok := strings.Cut(line, " - ")
		f, b := strings.Fields(front), strings.Fields(back)
		if !ok || len(f) < 5 || len(b) < 3 || (b[0] != "cgroup" && b[0] != "cgroup2") {
			continue
		}
		all = append(all, Mount{Dir: f[4], V2: b[0] == "cgroup2", root: f[3], options: strings.Split(b[2], ",")})
	}
	return all
}
