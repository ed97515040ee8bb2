package workload

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// The profiles of the general traffic.
const (
	ProfileRegisters  = "registers"
	ProfileLists      = "lists"
	ProfileWatches    = "watches"
	ProfileKubernetes = "kubernetes"
	ProfileEtcd       = "etcd"
	ProfileWork       = "work"
	ProfileSet        = "set"
	ProfileContests   = "contests"
	// ProfileApplication needs worker nodes, which may be simulated.
	ProfileApplication = "application"
)

type profileKind struct {
	name string
	set  func(Settings) bool
	make func(*Traffic) profile
}

// profileKinds returns all profiles in the order in which they are started. The application is first:
// its containers start before the others keep the nodes busy.
func profileKinds() []profileKind {
	return []profileKind{
		{ProfileApplication, func(s Settings) bool { return s.Application != ApplicationSettings{} }, func(t *Traffic) profile { return newApplication(t) }},
		{ProfileRegisters, func(s Settings) bool { return s.Registers != RegisterSettings{} }, func(t *Traffic) profile { return writers{t, t.cfg.Registers} }},
		{ProfileLists, func(s Settings) bool { return s.Lists != ListSettings{} }, func(t *Traffic) profile { return lists{t, t.cfg.Lists} }},
		{ProfileWatches, func(s Settings) bool { return s.Watches != WatchSettings{} }, func(t *Traffic) profile { return newWatches(t) }},
		{ProfileSet, func(s Settings) bool { return s.Set != SetSettings{} }, func(t *Traffic) profile { return newSet(t) }},
		{ProfileContests, func(s Settings) bool { return s.Contests != ContestSettings{} }, func(t *Traffic) profile { return newContests(t) }},
		{ProfileKubernetes, func(s Settings) bool { return s.Kubernetes != KubernetesSettings{} }, func(t *Traffic) profile { return kubernetes{t, t.cfg.Kubernetes} }},
		{ProfileEtcd, func(s Settings) bool { return s.Etcd != EtcdSettings{} }, func(t *Traffic) profile { return newEtcdTraffic(t) }},
		{ProfileWork, func(s Settings) bool { return s.Work != WorkSettings{} }, func(t *Traffic) profile { return work{t, t.cfg.Work} }},
	}
}

// ProfileNames returns all profiles.
func ProfileNames() (names []string) {
	for _, k := range profileKinds() {
		names = append(names, k.name)
	}
	return names
}

// DefaultProfiles returns the profiles of a Config that names none. On three nodes they make
// about 60 requests per second, so two processors can run three clusters.
func DefaultProfiles() []string {
	return []string{ProfileRegisters, ProfileLists, ProfileWatches, ProfileSet, ProfileContests}
}

// Config describes the general traffic. The zero value of each field but
// Cluster is useful.
type Config struct {
	// Seed is the seed of all clients' choices.
	Seed uint64
	// Cluster is the cluster under test; each of its entrances has its own clients.
	Cluster framework.Cluster
	Settings
}

// Settings are what a scenario says of the traffic.
type Settings struct {
	// Profiles are the profiles of the traffic, DefaultProfiles if empty.
	Profiles []string `json:"profiles,omitempty"`
	// Timeout is how long a client waits for a response, 5 s if 0.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Intensity divides the intervals of all profiles except work and application, which wait for
	// controllers; 1 if 0, at most MaxIntensity.
	Intensity   int                 `json:"intensity,omitempty"`
	Registers   RegisterSettings    `json:"registers,omitzero"`
	Lists       ListSettings        `json:"lists,omitzero"`
	Watches     WatchSettings       `json:"watches,omitzero"`
	Kubernetes  KubernetesSettings  `json:"kubernetes,omitzero"`
	Etcd        EtcdSettings        `json:"etcd,omitzero"`
	Set         SetSettings         `json:"set,omitzero"`
	Contests    ContestSettings     `json:"contests,omitzero"`
	Work        WorkSettings        `json:"work,omitzero"`
	Application ApplicationSettings `json:"application,omitzero"`
}

// An interval below is the mean pause of a client between two steps; each pause is drawn from ±
// 50 % around it.

// RegisterSettings are those of the profile "registers".
type RegisterSettings struct {
	ClientsPerEntrance int `json:"clientsPerEntrance,omitempty"` // 2 where 0
	// Keys is the number of registers that all clients share, 5 if 0.
	Keys     int           `json:"keys,omitempty"`
	Interval time.Duration `json:"interval,omitempty"` // 250 ms where 0
	// ValueSize is the size of every tenth value in bytes; 0 for short ones only.
	ValueSize int `json:"valueSize,omitempty"`
}

// ListSettings are those of the profile "lists".
type ListSettings struct {
	ClientsPerEntrance int           `json:"clientsPerEntrance,omitempty"` // 1 where 0
	Interval           time.Duration `json:"interval,omitempty"`           // 500 ms where 0
	Limit              int           `json:"limit,omitempty"`              // of a page, 2 where 0
}

// WatchSettings are those of the profile "watches".
type WatchSettings struct {
	ClientsPerEntrance int `json:"clientsPerEntrance,omitempty"` // 2 where 0
	// Lifetime is the mean time after which the client or, equally often, the server ends a
	// watch, 6 s if 0.
	Lifetime time.Duration `json:"lifetime,omitempty"`
}

// SetSettings are those of the profile "set".
type SetSettings struct {
	ClientsPerEntrance int           `json:"clientsPerEntrance,omitempty"` // 1 where 0
	Interval           time.Duration `json:"interval,omitempty"`           // 1 s where 0
}

// ContestSettings are those of the profile "contests".
type ContestSettings struct {
	Interval time.Duration `json:"interval,omitempty"` // 700 ms where 0
}

// KubernetesSettings are those of the profile "kubernetes".
type KubernetesSettings struct {
	ClientsPerEntrance int           `json:"clientsPerEntrance,omitempty"` // 1 where 0
	Interval           time.Duration `json:"interval,omitempty"`           // 200 ms where 0
}

// EtcdSettings are those of the profile "etcd".
type EtcdSettings struct {
	ClientsPerMember int           `json:"clientsPerMember,omitempty"` // 2 where 0
	Keys             int           `json:"keys,omitempty"`             // 6 where 0
	Interval         time.Duration `json:"interval,omitempty"`         // 100 ms where 0
	ValueSize        int           `json:"valueSize,omitempty"`        // as of registers
	Watches          int           `json:"watches,omitempty"`          // of each member, 2 where 0
	Lifetime         time.Duration `json:"lifetime,omitempty"`         // of a watch, 6 s where 0
}

// WorkSettings are those of the profile "work".
type WorkSettings struct {
	ClientsPerEntrance int           `json:"clientsPerEntrance,omitempty"` // 1 where 0
	Interval           time.Duration `json:"interval,omitempty"`           // 2 s where 0
}

// ApplicationSettings are those of the profile "application".
type ApplicationSettings struct {
	// Replicas is the largest number of pods that a part is scaled to, 5 if 0.
	Replicas int           `json:"replicas,omitempty"`
	Interval time.Duration `json:"interval,omitempty"` // between two scalings, 3 s where 0
	// BatchInterval is the interval between two batches, 4 s if 0, PodInterval between two bare
	// pods, 1 s if 0.
	BatchInterval time.Duration `json:"batchInterval,omitempty"`
	PodInterval   time.Duration `json:"podInterval,omitempty"`
	// StartLimit is how long the application may take to start, 2 min if 0.
	StartLimit time.Duration `json:"startLimit,omitempty"`
}

// MaxIntensity is the highest Config.Intensity: at that value the intervals are a few
// milliseconds.
const MaxIntensity = 50

// maxCount is the largest number of clients, keys, watches or pods: a test cluster and the judges
// of its record cannot handle more. maxTime is the longest interval.
const (
	maxCount = 1000
	maxTime  = time.Hour
)

// maxValueSize is the largest request that etcd accepts by default, minus the rest of an object.
const maxValueSize = 1 << 20

// Problem is what is wrong with one field of an experiment, or of its traffic.
type Problem struct {
	// Path is the path to the field, as in a scenario file: "timeline[2].inject.fault", or "lists.limit" for Settings.
	Path string
	Err  error
}

func (p Problem) Error() string { return p.Path + ": " + p.Err.Error() }

// Validate reports what is wrong with the settings; Start accepts none of it.
func (s Settings) Validate() []Problem {
	var all []Problem
	add := func(path, format string, args ...any) { all = append(all, Problem{path, fmt.Errorf(format, args...)}) }
	chosen := s.Profiles
	if len(chosen) == 0 {
		chosen = DefaultProfiles()
	}
	for i, name := range s.Profiles {
		path := fmt.Sprintf("profiles[%d]", i)
		switch {
		case !slices.Contains(ProfileNames(), name):
			add(path, "unknown traffic profile %q; allowed: %s", name, strings.Join(ProfileNames(), ", "))
		case slices.Contains(s.Profiles[:i], name):
			add(path, "%q is named twice", name)
		case (name == ProfileLists || name == ProfileWatches) && !slices.Contains(s.Profiles, ProfileRegisters):
			add(path, "%s need the registers: add the profile %s", name, ProfileRegisters)
		}
	}
	for _, k := range profileKinds() {
		if k.set(s) && !slices.Contains(chosen, k.name) {
			add(k.name, "these settings have no effect: the profiles are %s", strings.Join(chosen, ", "))
		}
	}
	limit := func(path string, negative, outside bool, format string, args ...any) {
		switch {
		case negative:
			add(path, "must not be negative")
		case outside:
			add(path, format, args...)
		}
	}
	for path, n := range map[string]int{
		"registers.clientsPerEntrance": s.Registers.ClientsPerEntrance, "lists.clientsPerEntrance": s.Lists.ClientsPerEntrance,
		"watches.clientsPerEntrance": s.Watches.ClientsPerEntrance, "set.clientsPerEntrance": s.Set.ClientsPerEntrance,
		"kubernetes.clientsPerEntrance": s.Kubernetes.ClientsPerEntrance, "work.clientsPerEntrance": s.Work.ClientsPerEntrance,
		"etcd.clientsPerMember": s.Etcd.ClientsPerMember, "etcd.watches": s.Etcd.Watches, "application.replicas": s.Application.Replicas,
		"registers.keys": s.Registers.Keys, "etcd.keys": s.Etcd.Keys, "lists.limit": s.Lists.Limit,
	} {
		limit(path, n < 0, n > maxCount, "%d: want %d at most", n, maxCount)
	}
	for path, d := range map[string]time.Duration{
		"timeout": s.Timeout, "registers.interval": s.Registers.Interval, "lists.interval": s.Lists.Interval, "watches.lifetime": s.Watches.Lifetime,
		"set.interval": s.Set.Interval, "contests.interval": s.Contests.Interval, "kubernetes.interval": s.Kubernetes.Interval,
		"etcd.interval": s.Etcd.Interval, "etcd.lifetime": s.Etcd.Lifetime, "work.interval": s.Work.Interval,
		"application.interval": s.Application.Interval, "application.batchInterval": s.Application.BatchInterval,
		"application.podInterval": s.Application.PodInterval, "application.startLimit": s.Application.StartLimit,
	} {
		limit(path, d < 0, d > maxTime || d > 0 && d < time.Millisecond, "%s: want 1ms to %s", d, maxTime)
	}
	for path, size := range map[string]int{"registers.valueSize": s.Registers.ValueSize, "etcd.valueSize": s.Etcd.ValueSize} {
		limit(path, size < 0, size > maxValueSize, "%d: want %d bytes at most", size, maxValueSize)
	}
	if s.Intensity < 0 || s.Intensity > MaxIntensity {
		add("intensity", "%d: want 1 to %d", s.Intensity, MaxIntensity)
	}
	slices.SortFunc(all, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// err joins all problems.
func (c Config) err() error {
	var all []error
	for _, p := range c.Validate() {
		all = append(all, p)
	}
	return errors.Join(all...)
}

func (c Config) withDefaults() Config {
	if len(c.Profiles) == 0 {
		c.Profiles = DefaultProfiles()
	}
	or(&c.Timeout, 5*time.Second)
	or(&c.Registers.ClientsPerEntrance, 2)
	or(&c.Registers.Keys, 5)
	or(&c.Registers.Interval, 250*time.Millisecond)
	or(&c.Lists.ClientsPerEntrance, 1)
	or(&c.Lists.Interval, 500*time.Millisecond)
	or(&c.Lists.Limit, 2)
	or(&c.Watches.ClientsPerEntrance, 2)
	or(&c.Watches.Lifetime, 6*time.Second)
	or(&c.Set.ClientsPerEntrance, 1)
	or(&c.Set.Interval, time.Second)
	or(&c.Contests.Interval, 700*time.Millisecond)
	or(&c.Kubernetes.ClientsPerEntrance, 1)
	or(&c.Kubernetes.Interval, 200*time.Millisecond)
	or(&c.Etcd.ClientsPerMember, 2)
	or(&c.Etcd.Keys, 6)
	or(&c.Etcd.Interval, 100*time.Millisecond)
	or(&c.Etcd.Watches, 2)
	or(&c.Etcd.Lifetime, 6*time.Second)
	or(&c.Work.ClientsPerEntrance, 1)
	or(&c.Work.Interval, 2*time.Second)
	or(&c.Application.Replicas, 5)
	or(&c.Application.Interval, 3*time.Second)
	or(&c.Application.BatchInterval, 4*time.Second)
	or(&c.Application.PodInterval, time.Second)
	or(&c.Application.StartLimit, 2*time.Minute)
	or(&c.Intensity, 1)
	for _, interval := range []*time.Duration{
		&c.Registers.Interval, &c.Lists.Interval, &c.Set.Interval, &c.Contests.Interval, &c.Kubernetes.Interval, &c.Etcd.Interval,
	} {
		*interval /= time.Duration(c.Intensity)
	}
	return c
}

// or sets v to its default if it is zero.
func or[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
