package remote

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/etcddata"
	"github.com/holdfast-ha/holdfast/framework"
)

// found is a node as found by a profile.
type found struct {
	profile   Profile
	sight     *sight
	node      clusters.InventoryNode
	processes map[framework.Component]process
	units     map[framework.Component]string // by which components are stopped
	unread    framework.Component            // whose configuration file cannot be read
	client    agent.EtcdClient               // on a host of an external etcd
	lost      error                          // why nothing of it was found, beside a silent API server; see detectSilent
}

// detect finds a node's components by a profile, or by the first one that fits.
func detect(name string, n clusters.InventoryNode, s *sight) (*found, error) {
	var problem error
	for _, one := range profilesFor(name, n) {
		p, err := profileOf(one)
		if err != nil {
			return nil, err
		}
		f, err := p.fit(n, s)
		if err == nil {
			return f, nil
		}
		problem = errors.Join(problem, fmt.Errorf("profile %s: %w", one, err))
	}
	if len(s.find(microK8s, "")) > 0 {
		return nil, fmt.Errorf("MicroK8s runs on %s, without etcd, and its faults are not supported: leave ssh out of the inventory, and use the profile observe", n.Name)
	}
	return nil, fmt.Errorf("no profile fits how the components on %s are run: %w", n.Name, problem)
}

// fit finds a node's components by the profile.
func (p Profile) fit(n clusters.InventoryNode, s *sight) (*found, error) {
	if n.EtcdOnly() {
		p = p.onEtcdHost()
	}
	f := &found{profile: p, sight: s, node: n, processes: map[framework.Component]process{}, units: map[framework.Component]string{}}
	return f, f.fits()
}

// fits finds the components, and refuses if processes, ports and manifests do not match the
// profile. An API server that is silent need not run.
func (f *found) fits() error {
	for _, c := range f.profile.Components {
		all := f.sight.find(c.Command, c.Parent)
		if pod, static := f.sight.manifests[c.Manifest]; static {
			// A pod of the API, such as a second scheduler, may run the same program.
			all = slices.DeleteFunc(all, func(p process) bool { uid := f.sight.pods[p.pid]; return uid != "" && uid != string(pod.UID) })
		}
		if len(all) == 0 {
			if c.Name == f.main() && !f.sight.silent {
				return noProcess(c)
			}
			continue // for example with an external etcd
		}
		p := all[0]
		if len(all) > 1 {
			return fmt.Errorf("%d processes may be %s: PIDs %d and %d are both %s%s (does a cluster run inside this one? otherwise name the parent of %[2]s in a profile of your own)", len(all), c.Name, p.pid, all[1].pid, c.Command, startedBy(c.Parent))
		}
		if _, there := f.sight.manifests[c.Manifest]; c.Manifest != "" && !there {
			return fmt.Errorf("%s is running, and %s is missing", c.Name, c.Manifest)
		}
		if err := f.inUnit(c, p); err != nil {
			return err
		}
		f.processes[c.Name] = f.withFlags(c, p)
	}
	if f.node.EtcdOnly() {
		if all := f.sight.find(string(framework.APIServer), ""); len(all) > 0 {
			return fmt.Errorf("an API server runs (PID %d), but the role in the inventory is %s", all[0].pid, clusters.RoleEtcd)
		}
		return nil
	}
	if _, runs := f.processes[framework.APIServer]; !runs {
		if err := f.addStopped(); err != nil {
			return err
		}
	}
	_, port, err := net.SplitHostPort(f.node.Server())
	if serves := f.processes[framework.APIServer].flag("secure-port"); err == nil && serves != "" && serves != port {
		return fmt.Errorf("the API server serves on port %s, but the inventory says %s", serves, port)
	}
	if len(f.sight.listening) > 0 && !f.sight.listening[port] && !f.sight.silent {
		return fmt.Errorf("no process listens on port %s, on which the API server serves according to the inventory", port)
	}
	return nil
}

// withFlags returns the process of a component with the flags that the profile sets.
func (f *found) withFlags(c ProfileComponent, p process) process {
	for _, flag := range slices.Sorted(maps.Keys(c.Flags)) {
		p = p.with("the profile "+f.profile.Name, "--"+flag+"="+c.Flags[flag])
	}
	return p
}

// addStopped adds an API server that does not run, if other components of the profile do: without one
// the profile says nothing about the node. It has the arguments of its static pod, or none.
func (f *found) addStopped() error {
	c := f.component(framework.APIServer)
	pod, there := f.sight.manifests[c.Manifest]
	switch {
	case len(f.components()) == 0:
		return noProcess(c)
	case c.Manifest != "" && !there:
		return fmt.Errorf("%s is not running, and %s is missing", c.Name, c.Manifest)
	}
	p := process{args: []string{c.Command}}
	if len(pod.Spec.Containers) > 0 {
		p = p.with("the manifest of its static pod", slices.Concat(pod.Spec.Containers[0].Command, pod.Spec.Containers[0].Args)...)
	}
	f.processes[c.Name] = p
	return nil
}

func noProcess(c ProfileComponent) error {
	return fmt.Errorf("no process %s%s", c.Command, startedBy(c.Parent))
}

// inUnit finds the systemd unit by which a component is stopped, if its profile names one and systemd
// runs, and refuses a unit in which the component does not run, or that it shares with another.
func (f *found) inUnit(c ProfileComponent, p process) error {
	unit, runs := c.Unit, f.sight.units[p.pid]
	switch {
	case unit == ownUnit && runs == "":
		return fmt.Errorf("%s runs in no systemd unit", c.Name)
	case unit == "" || !f.sight.systemd: // killed at each start
		return nil
	case unit == ownUnit:
		unit = runs
	case runs != "" && runs != unit:
		return fmt.Errorf("%s runs in the systemd unit %s, and not in %s", c.Name, runs, unit)
	}
	for other, its := range f.units {
		if its == unit && !slices.Contains(f.Group(c.Name), other) {
			return fmt.Errorf("%s and %s run in one systemd unit, %s", other, c.Name, unit)
		}
	}
	f.units[c.Name] = unit
	return nil
}

// Group returns the components that share a process with a component, including itself; nil if
// it has a process of its own. Their order is that of the profile.
func (f *found) Group(c framework.Component) (all []framework.Component) {
	group := f.component(c).Group
	if group == "" {
		return nil
	}
	for _, one := range f.profile.Components {
		if _, ok := f.processes[one.Name]; one.Group == group && (ok || one.Name == c) {
			all = append(all, one.Name)
		}
	}
	if len(all) < 2 {
		return nil
	}
	return all
}

// fused reports whether a component shares its process with others.
func (f *found) fused(c framework.Component) bool { return len(f.Group(c)) > 0 }

func (f *found) component(c framework.Component) ProfileComponent {
	i := slices.IndexFunc(f.profile.Components, func(one ProfileComponent) bool { return one.Name == c })
	if i < 0 {
		return ProfileComponent{}
	}
	return f.profile.Components[i]
}

// configFile returns the path on the node of etcd's configuration file; empty if it has flags.
func (f *found) configFile() string {
	if _, ok := f.processes[framework.Etcd]; !ok {
		return ""
	}
	return cmp.Or(f.file(framework.Etcd, "config-file"), f.component(framework.Etcd).Config)
}

// file maps the path in a component's flag to the node: flags have paths as the component sees
// them, possibly in a container.
func (f *found) file(component framework.Component, flag string) string {
	p, ok := f.processes[component]
	if !ok {
		return ""
	}
	return clusters.OnNode(f.sight.manifests[f.component(component).Manifest], p.flag(flag))
}

// logElsewhere returns why the data of etcd are not changed, if its write-ahead log is not in them:
// without its own log a member would exit, also as a new one. It is empty if the log is there.
func (f *found) logElsewhere() string {
	log := f.file(framework.Etcd, "wal-dir")
	if log == "" || strings.HasPrefix(log, filepath.Join(f.file(framework.Etcd, "data-dir"), etcddata.Member)+"/") {
		return ""
	}
	return "its etcd has its log in " + log + " (--wal-dir), and not in its data"
}

// configure sets the options of etcd's file as flags, which have the same names. etcd then ignores all
// other flags and its environment (parse in etcdmain/config.go). If the file that a profile names does
// not exist, the node has no member: its datastore is another one.
func (f *found) configure(file []byte) error {
	path := f.configFile()
	if len(file) == 0 {
		if f.sight.listening[etcdPeerPort] {
			return fmt.Errorf("a process listens on port %s as a member of etcd does, but %s is missing: name its configuration in a profile of your own (config; see docs/distributions.md), for example if k3s has another --data-dir",
				etcdPeerPort, path)
		}
		delete(f.processes, framework.Etcd)
		return nil
	}
	var settings map[string]any
	if err := yaml.Unmarshal(file, &settings); err != nil {
		return fmt.Errorf("failed to read the configuration of etcd: %w", err)
	}
	var flags []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		switch value := settings[name].(type) {
		case string, int, bool:
			flags = append(flags, fmt.Sprintf("--%s=%v", name, value))
		case map[string]any: // client-transport-security, peer-transport-security
			own, ok := strings.CutSuffix(name, "transport-security")
			for _, flag := range slices.Sorted(maps.Keys(value)) {
				if ok {
					flags = append(flags, fmt.Sprintf("--%s%s=%v", strings.TrimPrefix(own, "client-"), flag, value[flag]))
				}
			}
		}
	}
	p := f.processes[framework.Etcd]
	given := p.flag("config-file")
	p.args, p.from = []string{p.args[0]}, nil
	if given != "" {
		p.args = append(p.args, "--config-file="+given)
	}
	f.processes[framework.Etcd] = f.withFlags(f.component(framework.Etcd), p.with("the file "+path, flags...))
	return nil
}

// etcdPeerPort is the port on which members of etcd listen for one another, unless configured otherwise.
const etcdPeerPort = "2380"

// configureScheduler sets the times of the scheduler's election as flags, which have precedence
// over its file.
func (f *found) configureScheduler(file []byte) error {
	var settings struct {
		LeaderElection struct {
			LeaderElect   *bool  `yaml:"leaderElect"`
			LeaseDuration string `yaml:"leaseDuration"`
			RenewDeadline string `yaml:"renewDeadline"`
			RetryPeriod   string `yaml:"retryPeriod"`
		} `yaml:"leaderElection"`
	}
	if err := yaml.Unmarshal(file, &settings); err != nil {
		return err
	}
	e := settings.LeaderElection
	var flags []string
	if e.LeaderElect != nil {
		flags = append(flags, fmt.Sprintf("--leader-elect=%t", *e.LeaderElect))
	}
	for _, flag := range []struct{ name, value string }{{"lease-duration", e.LeaseDuration}, {"renew-deadline", e.RenewDeadline}, {"retry-period", e.RetryPeriod}} {
		if flag.value != "" {
			flags = append(flags, "--leader-elect-"+flag.name+"="+flag.value)
		}
	}
	f.processes[framework.Scheduler] = f.processes[framework.Scheduler].with("the file "+f.file(framework.Scheduler, "config"), flags...)
	return nil
}

func startedBy(parent string) string {
	if parent == "" {
		return ""
	}
	return " that " + parent + " started"
}

// components are those of the profile that run on the node.
func (f *found) components() (all []framework.Component) {
	for _, c := range f.profile.Components {
		if _, ok := f.processes[c.Name]; ok && c.Name != framework.NodeAgent && c.Name != framework.ContainerRuntime {
			all = append(all, c.Name)
		}
	}
	return all
}

// config returns the configuration of the node's agent.
func (f *found) config() agent.Config {
	etcd := f.processes[framework.Etcd]
	c := agent.Node()
	for _, one := range f.profile.Components {
		if _, ok := f.processes[one.Name]; !ok {
			continue
		}
		group := f.Group(one.Name)
		if len(group) > 0 && group[0] != one.Name {
			continue // it is part of the first one
		}
		a := agent.Component{Name: one.Name, Command: one.Command, Parent: one.Parent, Manifest: one.Manifest, Unit: f.units[one.Name]}
		if len(group) > 0 {
			a.With = group[1:]
		}
		c.Components = append(c.Components, a)
	}
	c.Before = f.profile.Before
	c.PKI, c.Audit = f.profile.PKI, f.file(framework.APIServer, "audit-log-path")
	c.Device, c.ControlPort, c.Leash = f.sight.devices[f.node.Address], f.sight.port, Leash
	// Without a member of its own the node's agent still undoes faults through the others.
	c.EtcdClient = f.client
	if !f.node.EtcdOnly() {
		c.EtcdClient = agent.EtcdClient{CA: f.file(framework.APIServer, "etcd-cafile"), Cert: f.file(framework.APIServer, "etcd-certfile"), Key: f.file(framework.APIServer, "etcd-keyfile")}
	}
	if len(etcd.args) > 0 {
		c.EtcdData, c.EtcdClient.URL = f.file(framework.Etcd, "data-dir"), memberURL(etcd, f.node.Address)
	}
	return c
}

// peerView returns the URL of a member as other nodes reach it: its own may be on the loopback device.
func peerView(own string, address netip.Addr) string {
	scheme, port := "https", "2379"
	if u, err := url.Parse(own); err == nil {
		scheme, port = cmp.Or(u.Scheme, scheme), cmp.Or(u.Port(), port)
	}
	return scheme + "://" + net.JoinHostPort(address.String(), port)
}

// memberURL is the URL of a member on its own node: on the loopback device if it listens there. The
// certificate of one that listens on all addresses has the host that it advertises.
func memberURL(etcd process, address netip.Addr) string {
	urls := urlsOf(etcd, "listen-client-urls")
	for _, prefer := range []string{"127.0.0.1", "localhost", "::1", address.String()} {
		for _, u := range urls {
			if u.Hostname() == prefer {
				return u.String()
			}
		}
	}
	if len(urls) == 0 {
		return "https://" + net.JoinHostPort(address.String(), "2379")
	}
	own := urls[0]
	if unspecified(own.Hostname()) {
		host := address.String()
		if all := urlsOf(etcd, "advertise-client-urls"); len(all) > 0 && !unspecified(all[0].Hostname()) {
			host = all[0].Hostname()
		}
		own.Host = net.JoinHostPort(host, own.Port())
	}
	return own.String()
}

// urlsOf returns the URLs in a flag of etcd.
func urlsOf(etcd process, flag string) (all []*url.URL) {
	for _, text := range strings.Split(etcd.flag(flag), ",") {
		if u, err := url.Parse(strings.TrimSpace(text)); err == nil && u.Host != "" {
			all = append(all, u)
		}
	}
	return all
}

// unspecified reports whether a host of a URL stands for all addresses.
func unspecified(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "" || err == nil && address.IsUnspecified()
}
