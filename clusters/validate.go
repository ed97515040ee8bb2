package clusters

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/nearest"
	"github.com/holdfast-ha/holdfast/framework/yamlfile"
)

const (
	MaxNodes = 7
	// maxWorkers keeps the addresses and the load of one kwok within reason.
	maxWorkers = 1000
	// maxHealthCheck bounds intervals and time-outs of the health check.
	maxHealthCheck = 10 * time.Minute
)

var (
	nodeCounts = []int{1, 3, 5, 7}
	// perNode are the components that take extra arguments for one node,
	// perCluster those that take them for all.
	perNode    = []framework.Component{framework.Etcd, framework.APIServer, framework.ControllerManager, framework.Scheduler, framework.AddonManager}
	perCluster = append(slices.Clone(perNode), framework.Kwok)
	// reserved are names of other parties on a cluster's network.
	reserved      = []string{"balancer", "harness", "workers", "localhost", "kubernetes"}
	balancerKinds = []BalancerKind{BalancerBuiltin, BalancerHAProxy, BalancerNGINX, BalancerDNS, BalancerVIP, BalancerOnDemand, BalancerNone}

	label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	flag  = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)
	// sysctl is a setting that is separate in each network namespace.
	sysctl = regexp.MustCompile(`^net(\.[a-zA-Z0-9_-]+)+$`)
)

// Version returns a version with a leading v. Empty stays empty.
func Version(text string) string {
	if text != "" && !strings.HasPrefix(text, "v") {
		return "v" + text
	}
	return text
}

// Validate returns all errors of a cluster. It does not check whether versions exist: fetching
// them does.
func (c *Cluster) Validate() error {
	return errors.Join(c.problems(func(string) string { return "" })...)
}

// validator collects problems; where returns the position of a field for errors.
type validator struct {
	where func(path string) string
	found []error
}

func (v *validator) problem(path, format string, args ...any) {
	v.found = append(v.found, fmt.Errorf("%s%s %s", v.where(path), path, fmt.Sprintf(format, args...)))
}

func (c *Cluster) problems(where func(path string) string) []error {
	v := &validator{where: where}
	if c.APIVersion != APIVersion {
		v.problem("apiVersion", "is %q: want %s", c.APIVersion, APIVersion)
	}
	if c.Kind != Kind {
		v.problem("kind", "is %q: want %s", c.Kind, Kind)
	}
	v.name("metadata.name", c.Metadata.Name)
	s := c.Spec
	if s.Inventory != nil { // it is not holdfast's to validate
		v.settings(c)
		return v.found
	}
	if !slices.Contains(nodeCounts, len(s.Nodes)) {
		v.problem("spec.nodes", "asks for %s control-plane nodes: want 1, 3, 5 or 7, since an even number of etcd members tolerates no more failures than the odd number below it",
			atMost(len(s.Nodes), MaxNodes))
	}
	v.version("spec.kubernetesVersion", s.KubernetesVersion, false)
	v.version("spec.etcdVersion", s.EtcdVersion, true)
	v.balancer(s.LoadBalancer)
	v.etcdBalancer(s)
	if s.Workers < 0 || s.Workers > maxWorkers {
		v.problem("spec.workers", "is %d: want 0 to %d", s.Workers, maxWorkers)
	}
	if s.Data != DataMemory && s.Data != DataDisk {
		v.problem("spec.data", "is %q: want %s or %s", s.Data, DataMemory, DataDisk)
	}
	v.disk("spec.disk", s.Disk)
	v.extraArgs("spec.extraArgs", s.ExtraArgs, perCluster)
	for _, name := range slices.Sorted(maps.Keys(s.Sysctls)) {
		if !sysctl.MatchString(name) {
			v.problem(yamlfile.Join("spec.sysctls", name), "is not a setting of a machine's network: want one such as net.ipv4.tcp_rto_max_ms")
		}
	}
	v.elections(c)
	v.leases(s.Leases)
	v.nodes(c)
	if len(v.found) == 0 {
		v.settings(c)
	}
	return v.found
}

// CheckName returns an *InputError for a name that a cluster cannot have.
func CheckName(name string) error {
	v := &validator{where: func(string) string { return "" }}
	if v.name("the cluster's name", name) {
		return nil
	}
	return &InputError{v.found[0]}
}

// name checks the name of a cluster, a node or a zone. Such names become host names, directories
// and parts of socket paths, which may have 107 bytes in all.
func (v *validator) name(path, name string) bool {
	ok := label.MatchString(name) && len(name) <= 40
	if !ok {
		v.problem(path, "is %q: want at most 40 lower-case letters, digits and dashes, no dash at either end", name)
	}
	return ok
}

// notReserved checks that the name of a node is not that of another party on its network.
func (v *validator) notReserved(path, name string) {
	if slices.Contains(reserved, name) || strings.HasPrefix(name, "worker-") {
		v.problem(path, "is %q, which is reserved (%s and worker-...)", name, strings.Join(reserved, ", "))
	}
}

// settings refuses times that cannot be parsed. The error of Settings names the flag; if the
// file sets it, it is the cluster's or the node's.
func (v *validator) settings(c *Cluster) {
	if _, err := Settings(c); err != nil {
		path := "spec.extraArgs"
		if bad, ok := errors.AsType[*badArgument](err); ok {
			path = bad.path(c)
		}
		v.problem(path, "cannot be used to compute bounds: %v", err)
	}
}

func (v *validator) nodes(c *Cluster) {
	names := map[string]int{}
	for i, node := range c.Nodes() {
		path, spec := fmt.Sprintf("spec.nodes[%d]", i), c.Spec.Nodes[i]
		if v.name(path+".name", node.Name) {
			v.notReserved(path+".name", node.Name)
		}
		if first, ok := names[node.Name]; ok {
			v.problem(path+".name", "is %q, as is that of spec.nodes[%d]", node.Name, first)
		}
		names[node.Name] = i
		v.name(path+".zone", node.Zone)
		v.version(path+".kubernetesVersion", spec.KubernetesVersion, true)
		v.version(path+".etcdVersion", spec.EtcdVersion, true)
		v.extraArgs(path+".extraArgs", spec.ExtraArgs, perNode)
		if spec.Disk != "" {
			v.disk(path+".disk", spec.Disk)
		}
	}
}

func (v *validator) disk(path string, d Disk) {
	if d != DiskNone && d != DiskFUSE {
		v.problem(path, "is %q: want %s or %s", d, DiskNone, DiskFUSE)
	}
}

func (v *validator) version(path, version string, optional bool) {
	if version == "" && optional {
		return
	}
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		v.problem(path, "is %q: want a full version such as %s", version, DefaultKubernetesVersion)
	}
}

// Balancers returns every kind of load balancer.
func Balancers() []string {
	return framework.Names(balancerKinds, func(k BalancerKind) string { return string(k) })
}

// BalancerKinds lists every kind of load balancer, for people: "builtin, ... or none".
func BalancerKinds() string {
	names := Balancers()
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func (v *validator) balancer(b LoadBalancer) {
	const path = "spec.loadBalancer"
	if !slices.Contains(balancerKinds, b.Kind) {
		v.problem(path+".kind", "is %q: want %s%s", b.Kind, BalancerKinds(), nearest.Meant(Balancers(), string(b.Kind)))
	}
	v.healthCheck(path+".healthCheck", b.HealthCheck)
}

func (v *validator) healthCheck(path string, h HealthCheck) {
	for name, value := range map[string]time.Duration{"interval": h.Interval, "timeout": h.Timeout} {
		if value < 10*time.Millisecond || value > maxHealthCheck {
			v.problem(path+"."+name, "is %v: want 10ms to %v", value, maxHealthCheck)
		}
	}
	if h.Timeout > h.Interval {
		v.problem(path+".timeout", "is %v, longer than the interval of %v: checks would pile up", h.Timeout, h.Interval)
	}
	for name, value := range map[string]int{"fall": h.Fall, "rise": h.Rise} {
		if value < 1 || value > 100 {
			v.problem(path+"."+name, "is %d: want 1 to 100", value)
		}
	}
}

func (v *validator) etcdBalancer(s Spec) {
	const path = "spec.etcdBalancer"
	switch s.EtcdBalancer {
	case "":
	case EtcdBalancerAffinity, EtcdBalancerRoundRobin:
		if !s.LoadBalancer.Machine() || s.LoadBalancer.Kind == BalancerOnDemand {
			v.problem(path, "is %s, which needs a machine that always runs, and loadBalancer %s has none: want another kind", s.EtcdBalancer, s.LoadBalancer.Kind)
		}
	default:
		v.problem(path, "is %q: want %s, %s or nothing", s.EtcdBalancer, EtcdBalancerAffinity, EtcdBalancerRoundRobin)
	}
}

func (v *validator) extraArgs(path string, args ExtraArgs, allowed []framework.Component) {
	for _, component := range slices.Sorted(maps.Keys(args)) {
		here := yamlfile.Join(path, string(component))
		if !slices.Contains(allowed, component) {
			names := framework.Names(allowed, func(c framework.Component) string { return string(c) })
			v.problem(here, "is not a component that takes arguments here: want one of %s", strings.Join(names, ", "))
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(args[component])) {
			if !flag.MatchString(name) {
				v.problem(yamlfile.Join(here, name), "is not the name of a flag: want it without its dashes, such as leader-elect")
			}
		}
	}
}

func atMost(n, limit int) string {
	if n > limit {
		return fmt.Sprintf("more than %d", limit)
	}
	return fmt.Sprint(n)
}
