package engine

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters/system"
)

// Problem is something missing on this machine.
type Problem struct {
	// What is missing, in a few words.
	What string `json:"what"`
	// Package is the Debian package that has it; empty if none does.
	Package string `json:"package,omitempty"`
	// Advice is what to do.
	Advice string `json:"advice"`
	// Blocks reports that no engine can be started because of it. Other problems disable
	// another part of the kind provider.
	Blocks bool `json:"blocks"`
}

// mountsGroups is the package of what mounts control groups of version 1.
const mountsGroups = "cgroupfs-mount"

// program is a program that holdfast needs for the kind provider.
type program struct {
	name, packageName, use string
	blocks                 bool
}

var programs = []program{
	{"docker", "docker.io", "the Docker client", true},
	{"dockerd", "docker.io", "the Docker engine", true},
	{"containerd", "containerd", "which dockerd starts", true},
	{"containerd-shim-runc-v2", "containerd", "which containerd starts", true},
	{"runc", "runc", "which starts containers", true},
	{"iptables", "iptables", "with which dockerd makes networks", true},
	{"debootstrap", "debootstrap", "with which the node image is built where no image registry can be reached", false},
}

// machine is what Problems examines; tests have their own.
type machine struct {
	look func(name string) (string, error)
	uid  int
	// mounts and maxUserNamespaces are files of /proc.
	mounts, maxUserNamespaces string
	inotify                   Limit
}

func thisMachine() machine {
	return machine{look: system.LookProgram, uid: os.Geteuid(),
		mounts: "/proc/self/mountinfo", maxUserNamespaces: "/proc/sys/user/max_user_namespaces", inotify: Inotify}
}

// Problems reports what this machine is missing for an engine of holdfast's own, and what to do
// about it. None of it is needed if another engine is used.
func Problems() []Problem { return thisMachine().problems() }

func (m machine) problems() []Problem {
	var all []Problem
	if m.uid != 0 {
		all = append(all, Problem{What: "root privileges", Blocks: true,
			Advice: "run holdfast as root, or start an engine that this user may use: an ordinary user cannot start one with holdfast"})
	}
	for _, p := range programs {
		if _, err := m.look(p.name); err != nil {
			all = append(all, Problem{What: p.name + " (" + p.use + ")", Package: p.packageName,
				Advice: advise([]string{p.packageName}), Blocks: p.blocks})
		}
	}
	if b, err := os.ReadFile(m.maxUserNamespaces); err == nil && strings.TrimSpace(string(b)) == "0" {
		all = append(all, Problem{What: "user namespaces", Blocks: true, Advice: "as root: sysctl -w user.max_user_namespaces=10000"})
	}
	if b, err := os.ReadFile(m.mounts); err == nil && !strings.Contains(string(b), " - cgroup") {
		all = append(all, Problem{What: "control groups", Package: mountsGroups, Blocks: true,
			Advice: "as root: apt-get install " + mountsGroups + " && cgroupfs-mount; in a container, mount /sys/fs/cgroup into it"})
	}
	// Root raises it when creating a cluster.
	if n := m.inotify.now(); n > 0 && n < m.inotify.Wanted && m.uid != 0 {
		all = append(all, Problem{What: fmt.Sprintf("%s of at least %d, for clusters of more than four nodes (it is %d)", m.inotify.Sysctl, m.inotify.Wanted, n),
			Advice: m.inotify.Advice()})
	}
	return all
}

// Blocking returns the problems that keep an engine from being started.
func Blocking(problems []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool { return !p.Blocks })
}

// Packages names the Debian packages that solve problems by being installed, each once.
func Packages(problems []Problem) (names []string) {
	for _, p := range problems {
		// The package that mounts control groups must also be run.
		if p.Package != "" && p.Package != mountsGroups && !slices.Contains(names, p.Package) {
			names = append(names, p.Package)
		}
	}
	return names
}

// Advice says in one sentence what to do about some problems: missing packages make one
// command.
func Advice(problems []Problem) string {
	var words []string
	for _, p := range problems {
		if p.Package == "" || p.Package == mountsGroups {
			words = append(words, p.Advice)
		}
	}
	if packages := Packages(problems); len(packages) > 0 {
		words = append(words, advise(packages))
	}
	return strings.Join(words, "; ")
}

// advise says how to install Debian packages.
func advise(packages []string) string {
	return "as root, on Debian 12: apt-get install --no-install-recommends " + strings.Join(packages, " ")
}

// Missing lists what is missing, for a table.
func Missing(problems []Problem) string {
	var names []string
	for _, p := range problems {
		name, _, _ := strings.Cut(p.What, " (")
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
